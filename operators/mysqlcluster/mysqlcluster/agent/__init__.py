"""The agent: one process in each Pod of a cluster, which runs the database server and performs the operator's actions.

The operator decides, the agents act. An agent stores the epoch of each action on disk before the action has an effect,
and refuses actions of lower epochs, so that an operator that was paused cannot promote a member with a delayed request.

| module | purpose |
|---|---|
| `settings` | the settings of an agent, from one JSON file |
| `record` | the state that survives restarts of the agent: epoch, role, completeness |
| `process` | starting, watching and stopping the server |
| `session` | connections to the local server |
| `local` | the local server with its record: sessions, facts, restarts |
| `clients` | ends commits and client connections |
| `data` | new databases, copies, restores, upgrades of the data |
| `copies` | copies of a running server, sent and received |
| `binlogs` | the list and the deletion of binary logs |
| `member` | actions and reports |
| `api` | the HTTPS interface |
| `client` | the operator's client of this interface |
"""
