# A MariaDB server from Debian's packages, and the agent: `make server-image VERSION=11.8`.
ARG VERSION=11.8

FROM docker.io/library/debian:bookworm-slim AS series-10.11
FROM docker.io/library/debian:trixie-slim AS series-11.8

FROM series-${VERSION} AS server
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        mariadb-server mariadb-server-core mariadb-client-core mariadb-client mariadb-backup python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* /var/lib/mysql/* \
    && useradd --uid 65532 --user-group --home-dir /var/lib/mysql --no-create-home --shell /usr/sbin/nologin server

FROM server AS agent
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python3 -m venv /opt/venv
WORKDIR /src
COPY requirements.lock ./
RUN /opt/venv/bin/pip install --no-deps -r requirements.lock
COPY pyproject.toml README.md ./
COPY mysqlcluster mysqlcluster
RUN /opt/venv/bin/pip install --no-deps . && /opt/venv/bin/pip check

FROM server
COPY --from=agent /opt/venv /opt/venv
# The Pods run `python3 -m mysqlcluster.agent` as this user; the number lets the kubelet verify that it is not root.
ENV PATH=/opt/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /tmp
EXPOSE 3306 8443
VOLUME /var/lib/mysql
USER 65532:65532
CMD ["python3", "-m", "mysqlcluster.agent"]
