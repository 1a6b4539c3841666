"""Backups: full copies and a continuous archive of the binary log, and the restore of new clusters from them.

One archiver runs beside each cluster that has backups, in a Pod of its own. It alone holds the credentials of the
target; the database Pods never do. It takes full copies from a member's agent, follows the binary log of a member, and
sends both to the agent of a new cluster. Everything it knows is in the target, so that it can be killed at any time.

| module | purpose |
|---|---|
| `positions` | positions in the history of MariaDB: the last transaction of each domain |
| `binlog` | the events of binary logs |
| `catalog` | the objects in a target: full backups and segments of the archive |
| `plan` | which backup and which segments lead to a point, and which gaps there are |
| `sealing` | compression, checksums and encryption of objects |
| `stores`, `s3` | targets: a directory, and S3 |
| `agent_binlogs` | the agent's side: its binary logs over HTTPS |
| `members` | the archiver's requests to agents |
| `follower` | the archive of the binary log |
| `jobs` | full backups, their verification and deletion |
| `archiver` | the process, its settings and its HTTPS interface |
| `restore` | the agent's side of a restore |
| `client` | the operator's requests to archivers |
| `lifecycle`, `schedules` | phases of backups and times of schedules, as pure functions |
| `resources`, `reconciler` | the archiver's Kubernetes objects, and what the controllers do |
"""
