#!/bin/sh
# Installs PostgreSQL, PgBouncer, RabbitMQ, Prometheus with its Pushgateway and Alertmanager, Dovecot and public-inbox, for tests that start
# servers of their own, Chromium, which looks at the console's pages, jq, which reads logs, tesseract, which reads pictures, and LibreOffice,
# which writes office files. The system's own servers are not started.
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
        prometheus prometheus-pushgateway prometheus-alertmanager chromium jq dovecot-imapd git public-inbox tesseract-ocr \
        libreoffice-writer-nogui libreoffice-calc-nogui libreoffice-impress-nogui
}
install || { apt-get update -qq && install; }
