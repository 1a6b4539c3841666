# A MySQL server from Debian's packages, and the agent: `make server-image FLAVOR=mysql VERSION=9.7`.
ARG VERSION=9.7

FROM docker.io/library/debian:sid-slim AS series-9.7

FROM series-${VERSION} AS server
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        mysql-server-core mysql-client-core python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 65532 --user-group --home-dir /var/lib/mysql --create-home --shell /usr/sbin/nologin server

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
