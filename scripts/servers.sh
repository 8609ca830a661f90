#!/bin/sh
# Installs PostgreSQL, PgBouncer, RabbitMQ and Prometheus with its Pushgateway and Alertmanager, for tests that start servers of
# their own, Chromium, which looks at the console's pages, and jq, which reads logs. The system's own servers are not started.
set -eu

if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    exit 1 # what is missing, and how to install it, is said by who called
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
fi
export DEBIAN_FRONTEND=noninteractive
install() {
    apt-get install -y -qq --no-install-recommends postgresql pgbouncer rabbitmq-server \
        prometheus prometheus-pushgateway prometheus-alertmanager chromium jq
}
install || { apt-get update -qq && install; }
