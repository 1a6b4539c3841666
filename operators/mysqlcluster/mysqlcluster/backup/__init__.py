"""Backups: full copies and a continuous archive of the binary log, and the restore of new clusters from them.

Each cluster with backups has one archiver, in a separate Pod. Only the archiver has the credentials of the target; the
database Pods do not. The archiver takes full copies from a member's agent, follows the binary log of a member, and
sends both to the agent of a new cluster. Its whole state is in the target, so that it can be killed at any time.

| module | purpose |
|---|---|
| `positions` | positions in the history of MariaDB: the last transaction of each domain |
| `binlog` | the events of binary logs |
| `catalog` | the objects in a target: full backups and segments of the archive |
| `plan` | the backup and the segments for a restore to a point in time, and gaps in the archive |
| `sealing` | compression, checksums and encryption of objects |
| `stores`, `s3` | targets: a directory, and S3 |
| `agent_binlogs` | the routes of the agent for its binary logs |
| `members` | the archiver's requests to agents |
| `follower` | the archive of the binary log |
| `jobs` | full backups, their verification and deletion |
| `protocol` | the jobs that an archiver accepts, and its report |
| `archiver` | the process, its settings and its HTTPS interface |
| `restore` | the restore in the agent of a new cluster |
| `client` | the operator's requests to archivers |
| `lifecycle`, `schedules` | phases of backups and times of schedules, as pure functions |
| `resources`, `reconciler` | the archiver's Kubernetes objects, and the reconciles of the backup controllers |
"""
