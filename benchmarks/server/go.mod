module steersman.dev/benchmarks/server

go 1.25
