// The neutral stub API server of the benchmarks: every peer talks to this one and no other.
//
// It serves what informers and controllers ask of a Kubernetes API server (discovery, get, list, paged list,
// WatchList, watch with bookmarks, create, update, patch, server-side apply, delete, leases, events; objects whole
// or as their metadata, in JSON or protobuf) over TLS with HTTP/1.1 and HTTP/2, from objects that were encoded
// before the measurement starts. It validates nothing, authenticates nobody and stores nothing: it exists only to
// be cheaper than any client, so that clients are what is measured.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", "", "directory for ca.pem, kubeconfig and ready.json (required)")
	flag.Parse()
	if *dir == "" {
		log.Fatal("-dir is required")
	}
	pki, err := makePKI()
	check(err)
	api, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	control, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)

	url := "https://" + api.Addr().String()
	check(os.WriteFile(filepath.Join(*dir, "ca.pem"), pki.caPEM, 0o600))
	check(os.WriteFile(filepath.Join(*dir, "kubeconfig"), kubeconfig(url, pki.caPEM), 0o600))
	ready, _ := json.Marshal(map[string]any{
		"server": url, "control": "http://" + control.Addr().String(), "pid": os.Getpid(),
	})
	partial := filepath.Join(*dir, "ready.json.partial")
	check(os.WriteFile(partial, ready, 0o600))

	world := newWorld()
	go func() { check(http.Serve(control, world.controlMux())) }()
	check(os.Rename(partial, filepath.Join(*dir, "ready.json")))
	check(newServer(world, pki.server).ServeTLS(api, "", ""))
}

// newServer speaks HTTP/2 itself, and leaves HTTP/1.1 to the library.
func newServer(w *world, certificate tls.Certificate) *http.Server {
	return &http.Server{
		Handler: w,
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
			DynamicRecordSizingDisabled: true,
		},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": serveH2},
		ErrorLog:     log.New(os.Stderr, "", 0),
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
