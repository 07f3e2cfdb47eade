#!/usr/bin/env bash
# Installs what a Debian machine with a Rust toolchain still lacks, and nothing else.
#
#   scripts/setup.sh evaluate    what `make evaluate` needs: a C compiler and linker
#   scripts/setup.sh test        that, and the real servers, clients and checks that `make test` uses
#   scripts/setup.sh truth       that of evaluate, and every server that `make truth` configures slow and fixed
#   scripts/setup.sh studies     that of evaluate, and the servers and allocators of the experiments in experiments/
#   scripts/setup.sh fleet       that of evaluate, and a broker for fleets of agents on this machine
#   scripts/setup.sh dist        that of evaluate, and what `make dist` packs and tests with
#   scripts/setup.sh dpdk        that of evaluate, and libdpdk with its drivers, for the feature of that name
#
# It looks before it acts: with everything in place it is silent, asks for no password and touches no
# network. As root it uses apt directly, otherwise through sudo; with neither it says what is missing and
# how to get it. Only a missing compiler or cargo stops it (exit 4): tests that lack their server say so.
#
# Surprise: Debian starts a service as soon as its package is installed. Nothing here may occupy port 80
# of somebody's machine, so a policy file forbids that while apt runs and is removed again afterwards.
set -euo pipefail

readonly self=${BASH_SOURCE[0]}
readonly deny_version=0.20.2
readonly auditable_version=0.7.7
readonly exit_usage=2 exit_environment=4
# Services that the packages bring.
readonly services='apache2 tomcat10 nginx haproxy caddy lighttpd varnish varnishncsa php*-fpm
    h2o hitch squid ssh trafficserver unicorn nats-server memcached pgbouncer postgresql redis-server thin yaws mariadb webdis
    fcgiwrap mediawiki-jobrunner prometheus radicale pdns influxdb docker-registry etcd rabbitmq-server epmd
    ejabberd clickhouse-server kamailio prosody victoria-metrics dnsdist stunnel4 privoxy prometheus-pushgateway
    e2guardian clamav-daemon clamav-freshclam apt-cacher-ng rspamd prometheus-alertmanager
    pgpool2 orthanc nutcracker mosquitto sphinxsearch gearman-job-server perlbal dovecot firebird3.0'
# Modules of Apache that their packages would enable.
readonly modules='auth_openidc authz_svn dav dav_svn iipsrv jk passenger perl security2 unique_id wsgi'
# Configurations of Apache that packages of applications would enable.
readonly configurations='cgit mediawiki phpmyadmin'
readonly policy=/usr/sbin/policy-rc.d
policy_is_ours=''
# Servers and network tools live where an ordinary user's PATH may not look.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin:${CARGO_HOME:-$HOME/.cargo}/bin"

# A compiler without the C library's headers is what `apt install gcc` alone leaves behind.
compiles() {
    echo '#include <stdlib.h>
int main(void) { return EXIT_SUCCESS; }' | cc -x c -o /dev/null - 2>/dev/null
}

has() { command -v "$1" >/dev/null 2>&1; }

# Packages for the compiler, one a line, when it is missing.
missing_compiler() {
    compiles || printf '%s\n' gcc libc6-dev
}

# Packages for the tests, one a line, whose program is missing.
missing_for_test() {
    while read -r program package; do
        case $program in
        */*) [ -e "$program" ] ;;
        *) has "$program" ;;
        esac || echo "$package"
    done <<'TABLE'
ab                                        apache2-utils
apache2                                   apache2-bin
caddy                                     caddy
chromium                                  chromium
curl                                      curl
fish                                      fish
go                                        golang-go
haproxy                                   haproxy
ip                                        iproute2
iptables                                  iptables
javac                                     default-jdk-headless
man                                       man-db
nats-server                               nats-server
nghttpd                                   nghttp2-server
nginx                                     nginx
openssl                                   openssl
podman                                    podman
python3                                   python3
redis-server                              redis-server
script                                    bsdutils
squid                                     squid
ssh                                       openssh-client
sshd                                      openssh-server
slirp4netns                               slirp4netns
taskset                                   util-linux
wrk                                       wrk
zsh                                       zsh
/usr/lib/podman/netavark                  netavark
/usr/lib/python3/dist-packages/grpc       python3-grpcio
/usr/lib/python3/dist-packages/websockets python3-websockets
/usr/share/tomcat10/bin/bootstrap.jar     tomcat10-common
TABLE
}

# Packages for `make dist`, one a line, whose program is missing.
missing_for_dist() {
    while read -r program package; do
        case $program in
        */*) compgen -G "$program" >/dev/null ;;
        *) has "$program" ;;
        esac || echo "$package"
    done <<'TABLE'
debootstrap                               debootstrap
dpkg-shlibdeps                            dpkg-dev
ip                                        iproute2
musl-gcc                                  musl-tools
objcopy                                   binutils
podman                                    podman
python3                                   python3
unshare                                   util-linux
/etc/ssl/certs/ca-certificates.crt        ca-certificates
TABLE
}

# Packages for the truth set, one a line, whose program is missing.
missing_for_truth() {
    while read -r program package; do
        case $program in
        */*) compgen -G "$program" >/dev/null ;;
        *) has "$program" ;;
        esac || echo "$package"
    done <<'TABLE'
apache2                                   apache2-bin
gunicorn                                  gunicorn
go                                        golang-go
haproxy                                   haproxy
ip                                        iproute2
javac                                     default-jdk-headless
lighttpd                                  lighttpd
nginx                                     nginx
node                                      nodejs
openssl                                   openssl
python3                                   python3
taskset                                   util-linux
uwsgi                                     uwsgi-core
varnishd                                  varnish
/usr/lib/uwsgi/plugins/python3*_plugin.so uwsgi-plugin-python3
caddy                                     caddy
/etc/apache2/apache2.conf                 apache2
/etc/tomcat10/server.xml                  tomcat10
/usr/sbin/php-fpm*                        php-fpm
/usr/share/tomcat10/bin/bootstrap.jar     tomcat10-common
h2o                                       h2o
hitch                                     hitch
puma                                      puma
squid                                     squid
traffic_server                            trafficserver
unicorn                                   unicorn
uvicorn                                   uvicorn
waitress-serve                            python3-waitress
/usr/lib/python3/dist-packages/tornado/*  python3-tornado
/usr/share/java/jetty9-server.jar         libjetty9-java
/usr/share/java/servlet-api.jar           libservlet-api-java
hypnotoad                                 libmojolicious-perl
memcached                                 memcached
nghttpx                                   nghttp2-proxy
pgbouncer                                 pgbouncer
redis-server                              redis-server
starman                                   starman
thin                                      thin
yaws                                      yaws
/usr/lib/postgresql/*/bin/postgres        postgresql
/usr/lib/python3/dist-packages/aiohttp/*  python3-aiohttp
/usr/lib/python3/dist-packages/cherrypy/* python3-cherrypy3
/usr/lib/python3/dist-packages/gevent/*   python3-gevent
/usr/lib/python3/dist-packages/psycopg2/* python3-psycopg2
/usr/lib/python3/dist-packages/pymemcache/* python3-pymemcache
/usr/lib/python3/dist-packages/twisted/*  python3-twisted
/usr/share/gocode/src/github.com/lib/pq/* golang-github-lib-pq-dev
/usr/share/perl5/Redis.pm                 libredis-perl
/usr/share/rubygems-integration/all/gems/sinatra-* ruby-sinatra
/usr/share/rubygems-integration/all/gems/redis-* ruby-redis
mariadbd                                  mariadb-server
/usr/lib/php/*/mysqli.so                  php-mysql
/usr/lib/nginx/modules/ngx_http_lua_module.so libnginx-mod-http-lua
/usr/lib/python3/dist-packages/asyncpg/*  python3-asyncpg
/usr/lib/python3/dist-packages/django/*   python3-django
/usr/lib/python3/dist-packages/fastapi/*  python3-fastapi
/usr/lib/python3/dist-packages/flask/*    python3-flask
/usr/lib/python3/dist-packages/pymysql/*  python3-pymysql
/usr/share/gocode/src/github.com/gomodule/redigo/* golang-github-gomodule-redigo-dev
/usr/share/java/netty-codec-http.jar      libnetty-java
/usr/share/lua/5.1/socket.lua             lua-socket
rotatelogs                                apache2-utils
/usr/include/fcgiapp.h                    libfcgi-dev
/usr/include/microhttpd.h                 libmicrohttpd-dev
/usr/lib/python3/dist-packages/bottle.py  python3-bottle
/usr/lib/python3/dist-packages/falcon/*   python3-falcon
/usr/lib/python3/dist-packages/hypercorn/* python3-hypercorn
/usr/lib/python3/dist-packages/quart/*    python3-quart
/usr/lib/python3/dist-packages/redis/*    python3-redis
/usr/share/gocode/src/github.com/gin-gonic/gin/* golang-github-gin-gonic-gin-dev
/usr/share/nodejs/ejs/*                   node-ejs
/usr/share/nodejs/express/*               node-express
/usr/share/perl5/Dancer2.pm               libdancer2-perl
/usr/share/perl5/YAML.pm                  libyaml-perl
ghc                                       ghc
/usr/include/event2/http.h                libevent-dev
/usr/lib/apache2/modules/mod_perl.so      libapache2-mod-perl2
/usr/lib/apache2/modules/mod_security2.so libapache2-mod-security2
/usr/lib/apache2/modules/mod_wsgi.so      libapache2-mod-wsgi-py3
/usr/lib/nginx/modules/ngx_http_js_module.so libnginx-mod-http-js
/usr/lib/python3/dist-packages/requests/* python3-requests
/usr/share/java/jackson-databind.jar      libjackson2-databind-java
/usr/share/java/logback-classic.jar       liblogback-java
/usr/share/java/postgresql.jar            libpostgresql-jdbc-java
/usr/share/modsecurity-crs/owasp-crs.load modsecurity-crs
/var/lib/ghc/package.conf.d/postgresql-simple-* libghc-postgresql-simple-dev
/var/lib/ghc/package.conf.d/vector-*      libghc-vector-dev
/var/lib/ghc/package.conf.d/warp-*        libghc-warp-dev
/usr/share/gocode/src/github.com/valyala/fasthttp/* golang-github-valyala-fasthttp-dev
c++                                       g++
/usr/include/boost/beast.hpp              libboost-dev
/usr/include/postgresql/libpq-fe.h        libpq-dev
/usr/lib/erlang/lib/inets-*               erlang-inets
erlc                                      erlang-base
sbcl                                      sbcl
/usr/share/common-lisp/systems/hunchentoot.asd cl-hunchentoot
/usr/include/libsoup-3.0/libsoup/soup.h   libsoup-3.0-dev
pkg-config                                pkg-config
/usr/lib/python3/dist-packages/pyramid/*  python3-pyramid
/usr/lib/python3/dist-packages/sqlalchemy/* python3-sqlalchemy
/usr/include/httplib.h                    libcpp-httplib-dev
/usr/share/rubygems-integration/all/gems/railties-* ruby-railties
/usr/share/rubygems-integration/all/gems/activerecord-* ruby-activerecord
/usr/share/rubygems-integration/*/specifications/mysql2-* ruby-mysql2
daphne                                    daphne
nim                                       nim
swipl                                     swi-prolog-nox
webdis                                    webdis
/usr/include/civetweb.h                   libcivetweb-dev
/usr/include/Poco/Net/HTTPServer.h        libpoco-dev
/usr/lib/python3/dist-packages/eventlet/* python3-eventlet
ocamlfind                                 ocaml-findlib
ocamlopt                                  ocaml
/usr/lib/ocaml/cohttp-lwt-unix/META       libcohttp-lwt-unix-ocaml-dev
/usr/share/java/core.async.jar            libcore-async-clojure
/usr/share/java/ring-jetty-adapter.jar    libring-jetty-adapter-clojure
racket                                    racket
/usr/share/gocode/src/github.com/labstack/echo/* golang-github-labstack-echo-dev
/usr/share/gocode/src/github.com/jackc/pgx/v4/* golang-github-jackc-pgx-v4-dev
/usr/share/java/HikariCP.jar              libhikaricp-java
/usr/share/java/spring3-jdbc.jar          libspring-jdbc-java
/usr/share/java/spring3-web.servlet.jar   libspring-web-servlet-java
/usr/share/wordpress/wp-settings.php      wordpress
/usr/lib/apache2/modules/mod_passenger.so libapache2-mod-passenger
/usr/share/rubygems-integration/all/gems/grape-* ruby-grape
/usr/lib/ruby/vendor_ruby/sequel.rb         ruby-sequel
/usr/share/rubygems-integration/*/specifications/pg-* ruby-pg
elixir                                    elixir
/usr/lib/erlang/lib/mochiweb/*            erlang-mochiweb
/usr/include/cpprest/http_listener.h      libcpprest-dev
/usr/include/openssl/ssl.h                libssl-dev
/usr/lib/cgit/cgit.cgi                    cgit
fcgiwrap                                  fcgiwrap
git                                       git
highlight                                 highlight
/usr/include/pistache/endpoint.h          libpistache-dev
/usr/include/rapidjson/document.h         rapidjson-dev
mcs                                       mono-mcs
mono                                      mono-runtime
/usr/share/perl5/Catalyst.pm              libcatalyst-perl
/usr/share/perl5/Catalyst/View/TT.pm      libcatalyst-view-tt-perl
/usr/share/perl5/DBIx/Class.pm            libdbix-class-perl
/usr/lib/*/perl5/5.*/DBD/Pg.pm            libdbd-pg-perl
/usr/lib/*/perl5/5.*/JSON/XS.pm           libjson-xs-perl
/usr/share/mediawiki/index.php            mediawiki
/usr/lib/php/*/apcu.so                    php-apcu
/usr/lib/php/*/intl.so                    php-intl
/usr/lib/php/*/mbstring.so                php-mbstring
/usr/lib/php/*/xml.so                     php-xml
/usr/share/dokuwiki/doku.php              dokuwiki
/usr/lib/*/rubygems-integration/*/specifications/haml-* ruby-haml
/usr/share/rubygems-integration/*/specifications/sqlite3-* ruby-sqlite3
/usr/lib/*/perl5/5.*/FCGI.pm              libfcgi-perl
/usr/share/perl5/FCGI/ProcManager.pm      libfcgi-procmanager-perl
/usr/share/perl5/HTML/Template.pm         libhtml-template-perl
/usr/share/nodejs/http-proxy/*            node-http-proxy
crystal                                   crystal
slapd                                     slapd
/usr/lib/python3/dist-packages/ldap/*     python3-ldap
prometheus                                prometheus
/usr/lib/apache2/modules/mod_jk.so        libapache2-mod-jk
/usr/share/cargo/registry/hyper-0*        librust-hyper-dev
/usr/share/cargo/registry/tokio-1*        librust-tokio-dev
Rscript                                   r-base-core
/usr/lib/R/site-library/plumber           r-cran-plumber
/usr/lib/R/site-library/curl              r-cran-curl
twiggy                                    twiggy
/usr/share/perl5/AnyEvent/HTTP.pm         libanyevent-http-perl
/usr/lib/python3/dist-packages/radicale/* radicale
/usr/share/gocode/src/github.com/go-chi/chi/* golang-github-go-chi-chi-dev
/usr/share/gocode/src/go.etcd.io/bbolt/*  golang-github-coreos-bbolt-dev
/usr/share/nodejs/connect/*               node-connect
/usr/share/nodejs/marked/*                node-marked
pdns_server                               pdns-server
/usr/lib/*/pdns/libgpgsqlbackend.so       pdns-backend-pgsql
/usr/lib/python3/dist-packages/graphite/* graphite-web
/usr/lib/python3/dist-packages/memcache.py python3-memcache
/usr/lib/apache2/modules/mod_dav_svn.so   libapache2-mod-svn
svnadmin                                  subversion
/usr/lib/*/apr-util-1/apr_dbd_pgsql.so    libaprutil1-dbd-pgsql
influxd                                   influxdb
/usr/lib/python3/dist-packages/mapproxy/* python3-mapproxy
/usr/share/java/simple.jar                libsimple-http-java
/usr/share/java/h2.jar                    libh2-java
/usr/share/java/commons-dbcp2.jar         libcommons-dbcp2-java
/usr/lib/python3/dist-packages/web/*      python3-webpy
/usr/share/rubygems-integration/all/specifications/async-http-* ruby-async-http
hg                                        mercurial
docker-registry                           docker-registry
/usr/share/lua/5.2/http/server.lua        lua-http
lua5.2                                    lua5.2
/usr/share/java/httpcore.jar              libhttpcore-java
/usr/share/java/caffeine.jar              libcaffeine-java
/usr/share/gocode/src/github.com/gorilla/mux/* golang-github-gorilla-mux-dev
/usr/share/gocode/src/github.com/go-sql-driver/mysql/* golang-github-go-sql-driver-mysql-dev
etcd                                      etcd-server
/usr/lib/nginx/modules/ngx_http_perl_module.so libnginx-mod-http-perl
/usr/share/cargo/registry/socket2-0*      librust-socket2-dev
/usr/share/cargo/registry/rusqlite-0*     librust-rusqlite-dev
/usr/share/cargo/registry/tiny_http-0*    librust-tiny-http-dev
/usr/share/java/groovy.jar                groovy
tinyproxy                                 tinyproxy-bin
fpc                                       fp-compiler
/usr/share/java/geronimo-annotation-1.3-spec.jar libgeronimo-annotation-1.3-spec-java
/usr/share/java/resteasy-jaxrs.jar        libresteasy3.0-java
rabbitmqctl                               rabbitmq-server
tclsh                                     tcl
/usr/lib/tcltk/sqlite3/libtclsqlite3.so   libsqlite3-tcl
/usr/share/tcltk/tcllib*/httpd/httpd.tcl  tcllib
/usr/lib/*/fpc/*/units/*/fcl-db/pqconnection.ppu fp-units-db
/usr/lib/*/fpc/*/units/*/fcl-web/fphttpserver.ppu fp-units-fcl
/usr/share/gocode/src/github.com/julienschmidt/httprouter/* golang-github-julienschmidt-httprouter-dev
/usr/share/gocode/src/github.com/syndtr/goleveldb/* golang-github-syndtr-goleveldb-dev
pike8.0                                   pike8.0-core
/usr/share/doc/ejabberd                   ejabberd
/usr/share/doc/erlang-p1-pgsql            erlang-p1-pgsql
clickhouse-server                         clickhouse-server
kamailio                                  kamailio
/usr/lib/*/kamailio/modules/http_client.so kamailio-utils-modules
/usr/share/gocode/src/github.com/emicklei/go-restful/* golang-github-emicklei-go-restful-dev
/usr/share/gocode/src/google.golang.org/grpc/* golang-google-grpc-dev
/usr/include/*/qt6/QtHttpServer           qt6-httpserver-dev
/usr/include/*/qt6/QtConcurrent           qt6-base-dev
/usr/lib/*/qt6/plugins/sqldrivers/libqsqlpsql.so libqt6sql6-psql
/usr/lib/nginx/modules/ngx_http_image_filter_module.so libnginx-mod-http-image-filter
/usr/share/doc/lua-dbi-sqlite3             lua-dbi-sqlite3
prosody                                   prosody
/usr/lib/python3/dist-packages/celery/*   python3-celery
/usr/lib/python3/dist-packages/pecan/*    python3-pecan
/usr/lib/python3/dist-packages/graphene/* python3-graphene
/usr/lib/*/apr-util-1/apr_ldap.so         libaprutil1-ldap
rclone                                    rclone
guile                                     guile-3.0
/usr/lib/cgi-bin/mapserv                  cgi-mapserver
shptree                                   mapserver-bin
spawn-fcgi                                spawn-fcgi
/usr/lib/php/*/redis.so                   php-redis
/usr/share/php/Slim/App.php               php-slim
/usr/share/php/Twig/Environment.php       php-twig
/usr/lib/python3/dist-packages/flask_caching/* python3-flask-caching
/usr/lib/python3/dist-packages/flask_session/* python3-flask-session
/usr/lib/python3/dist-packages/flask_sqlalchemy/* python3-flask-sqlalchemy
/usr/share/nodejs/mysql/*                 node-mysql
/usr/share/nodejs/redis/*                 node-redis
/usr/share/java/c3p0.jar                  libc3p0-java
/usr/share/java/tomcat10-coyote.jar       libtomcat10-java
/usr/lib/nginx/modules/ngx_http_xslt_filter_module.so libnginx-mod-http-xslt-filter
nats-server                               nats-server
/usr/share/gocode/src/github.com/nats-io/nats.go/* golang-github-nats-io-go-nats-dev
/usr/share/java/lucene-core-8*.jar        liblucene8-java
/usr/lib/python3/dist-packages/rest_framework/* python3-djangorestframework
victoria-metrics                          victoria-metrics
dnsdist                                   dnsdist
/usr/lib/python3/dist-packages/spyne/*    python3-spyne
/usr/lib/python3/dist-packages/zeep/*     python3-zeep
/usr/include/ulfius.h                     libulfius-dev
stunnel4                                  stunnel4
groonga                                   groonga-bin
/usr/lib/php/*/pdo_pgsql.so               php-pgsql
/usr/share/php/Doctrine/DBAL/autoload.php php-doctrine-dbal
/usr/share/php/Symfony/Bundle/FrameworkBundle/autoload.php php-symfony-framework-bundle
scalac                                    scala
/usr/share/java/scala-parser-combinators_2.11.jar scala-parser-combinators
/usr/share/php/Illuminate/Foundation/Application.php php-laravel-framework
privoxy                                   privoxy
prometheus-pushgateway                    prometheus-pushgateway
kotlinc                                   kotlin
/var/lib/ghc/package.conf.d/scotty-*      libghc-scotty-dev
/var/lib/ghc/package.conf.d/hedis-*       libghc-hedis-dev
e2guardian                                e2guardian
/usr/share/gocode/src/github.com/jinzhu/gorm/* golang-github-jinzhu-gorm-dev
/usr/lib/nginx/modules/ngx_http_modsecurity_module.so libnginx-mod-http-modsecurity
apt-cacher-ng                             apt-cacher-ng
/usr/share/java/eclipselink.jar           libeclipselink-java
/var/lib/ghc/package.conf.d/acid-state-*  libghc-acid-state-dev
/var/lib/ghc/package.conf.d/happstack-server-* libghc-happstack-server-dev
rspamd                                    rspamd
/usr/share/java/freemarker.jar            libfreemarker-java
/usr/share/java/ehcache.jar               libehcache-java
/usr/lib/apache2/modules/mod_auth_openidc.so libapache2-mod-auth-openidc
/usr/share/perl5/HTML/Mason.pm            libhtml-mason-perl
/usr/share/perl5/Apache/DBI.pm            libapache-dbi-perl
/usr/share/perl5/Apache/Session.pm        libapache-session-perl
/usr/lib/*/perl5/5.*/DBD/mysql.pm         libdbd-mysql-perl
bsdtar                                    libarchive-tools
debuginfod                                debuginfod
mitmdump                                  mitmproxy
prometheus-alertmanager                   prometheus-alertmanager
/usr/share/java/hsqldb.jar                libhsqldb-java
/usr/share/php/Doctrine/ORM/autoload.php  php-doctrine-orm
/usr/share/php/Symfony/Component/Cache/autoload.php php-symfony-cache
pgpool                                    pgpool2
Orthanc                                   orthanc
/usr/share/orthanc/plugins/libOrthancDicomWeb.so orthanc-dicomweb
/usr/share/php/smarty4/Smarty.class.php   smarty4
/usr/share/gocode/src/github.com/dgraph-io/badger/* golang-github-dgraph-io-badger-dev
/usr/include/libwebsockets.h              libwebsockets-dev
nutcracker                                nutcracker
/usr/lib/iipimage-server/iipsrv.fcgi      iipimage-server
vips                                      libvips-tools
/usr/lib/*/perl5/*/Search/Xapian.pm       libsearch-xapian-perl
xapian-tcpsrv                             xapian-tools
/usr/share/java/derby.jar                 libderby-java
/usr/share/java/zookeeper.jar             libzookeeper-java
/usr/lib/python3/dist-packages/kazoo/*    python3-kazoo
/usr/share/gocode/src/github.com/casbin/casbin/* golang-github-casbin-casbin-dev
mosquitto                                 mosquitto
/usr/lib/python3/dist-packages/paho/*     python3-paho-mqtt
searchd                                   sphinxsearch
perlbal                                   perlbal
/usr/lib/python3/dist-packages/peewee.py  python3-peewee
/usr/share/gocode/src/github.com/go-kit/kit/* golang-github-go-kit-kit-dev
kore                                      kore
/usr/lib/dovecot/imap                     dovecot-imapd
/usr/share/rubygems-integration/all/gems/dalli-* ruby-dalli
/usr/share/gocode/src/github.com/streadway/amqp/* golang-github-streadway-amqp-dev
pen                                       pen
firebird                                  firebird3.0-server
isql-fb                                   firebird3.0-utils
/usr/lib/php/*/pdo_firebird.so            php-interbase
/usr/include/restinio/all.hpp             librestinio-dev
/usr/include/rocksdb/db.h                 librocksdb-dev
/usr/share/java/activemq-broker.jar       libactivemq-java
gearmand                                  gearman-job-server
/usr/lib/php/*/gearman.so                 php-gearman
/usr/share/phpmyadmin/index.php           phpmyadmin
mariadb                                   mariadb-client
TABLE
}

# Packages for the experiments, one a line, whose program or library is missing.
missing_for_studies() {
    while read -r program package; do
        case $program in
        */*) compgen -G "$program" >/dev/null ;;
        *) has "$program" ;;
        esac || echo "$package"
    done <<'TABLE'
ip                                        iproute2
java                                      default-jre-headless
nginx                                     nginx
/usr/lib/*/libjemalloc.so.2               libjemalloc2
/usr/lib/*/libmimalloc.so.2.0             libmimalloc2.0
/usr/lib/*/libtcmalloc_minimal.so.4       libtcmalloc-minimal4
/usr/share/tomcat10/bin/bootstrap.jar     tomcat10-common
TABLE
}

# Packages for the feature `dpdk`, one a line, when the library is missing.
missing_for_dpdk() {
    has pkg-config && pkg-config --exists 'libdpdk >= 22.11' || printf '%s\n' pkg-config libdpdk-dev dpdk-dev
    has ip || echo iproute2
}

remove_policy() {
    [ -z "$policy_is_ours" ] || rm -f "$policy"
}

# Runs as root: the policy file, apt, and the clean-up of both whatever happens in between.
install_as_root() {
    local service file name before enabled
    before=$(services_here)
    enabled=$(enabled_in_apache)
    trap remove_policy EXIT
    trap 'exit 130' INT TERM HUP
    if [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
        policy_is_ours=yes
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -qq -y --no-install-recommends "$@" >/dev/null
    for service in $(comm -13 <(echo "$before") <(services_here)); do
        keep_off "$service"
    done
    for file in $(comm -13 <(echo "$enabled") <(enabled_in_apache)); do
        name=$(basename "${file%.*}")
        case $file in
            mods-enabled/*) a2dismod -q -f "$name" >/dev/null ;;
            *) a2disconf -q -f "$name" >/dev/null ;;
        esac
        echo "setup: $name is installed for the tests; Apache does not load it"
    done
}

# Which of the modules and configurations that only cases load are enabled in Apache's own configuration, as the file
# that enables them, one a line, sorted.
enabled_in_apache() {
    local name
    {
        for name in $modules; do echo "mods-enabled/$name.load"; done
        for name in $configurations; do echo "conf-enabled/$name.conf"; done
    } | while read -r name; do
        [ ! -e "/etc/apache2/$name" ] || echo "$name"
    done | sort
}

# Which of the services are installed, one a line, sorted.
services_here() {
    local service
    # Unquoted on purpose: the names hold a pattern for compgen, which no file here matches.
    for service in $services; do
        compgen -G "/lib/systemd/system/$service.service" || compgen -G "/etc/init.d/$service" || true
    done | sed 's|.*/||; s|\.service$||' | sort
}

# The package also asks for a start at the next boot; whoever wants that can enable it.
keep_off() {
    if has systemctl; then
        systemctl --quiet disable --now "$1" 2>/dev/null || true
    fi
    echo "setup: $1 is installed for the tests; its service is neither started nor enabled"
}

# Installs packages by whichever way is open; false when there is none or it failed.
install() {
    echo "setup: installing $*"
    if ! has apt-get; then
        echo "setup: this machine has no apt-get" >&2
        return 1
    elif [ "$(id -u)" = 0 ]; then
        bash "$self" as-root "$@"
    elif ! has sudo; then
        echo "setup: neither root nor sudo is at hand" >&2
        return 1
    elif [ -t 0 ]; then
        sudo bash "$self" as-root "$@"
    else
        # Nobody could answer a password prompt.
        sudo -n bash "$self" as-root "$@"
    fi
}

# Installs packages; when that fails, says what to do by hand and returns false.
install_or_explain() {
    [ $# -gt 0 ] || return 0
    if ! install "$@"; then
        echo "setup: missing: $*" >&2
        echo "remedy: as root, apt-get install --no-install-recommends $*" >&2
        return 1
    fi
}

require_cargo() {
    if ! has cargo; then
        echo "setup: there is no Rust toolchain (cargo)" >&2
        echo "remedy: install one with rustup, see https://rustup.rs" >&2
        exit "$exit_environment"
    fi
}

require_compiler() {
    local packages
    mapfile -t packages < <(missing_compiler)
    if ! install_or_explain "${packages[@]}" || ! compiles; then
        echo "setup: prony cannot be built without a working C compiler" >&2
        exit "$exit_environment"
    fi
}

install_test_tools() {
    local packages
    mapfile -t packages < <(missing_for_test)
    install_or_explain "${packages[@]}" \
        || echo "setup: going on; the tests that need these name what they lack" >&2
}

install_truth_servers() {
    local packages
    mapfile -t packages < <(missing_for_truth)
    install_or_explain "${packages[@]}" \
        || echo "setup: going on; cases whose server is missing are skipped and say so" >&2
}

install_study_servers() {
    local packages
    mapfile -t packages < <(missing_for_studies)
    install_or_explain "${packages[@]}" \
        || echo "setup: going on; levels whose server or library is missing are skipped and say so" >&2
}

require_packages() {
    if ! install_or_explain "$@"; then
        exit "$exit_environment"
    fi
}

install_cargo_deny() {
    cargo deny --version >/dev/null 2>&1 && return
    echo "setup: building cargo-deny $deny_version (a few minutes, once)"
    cargo install --quiet --locked cargo-deny --version "$deny_version" \
        || echo "setup: cargo-deny could not be built; \`make check\` will stop at it" >&2
}

main() {
    local what=${1:-evaluate} packages
    [ $# -eq 0 ] || shift
    case $what in
    evaluate)
        require_cargo
        require_compiler
        ;;
    test)
        require_cargo
        require_compiler
        install_test_tools
        install_cargo_deny
        ;;
    truth)
        require_cargo
        require_compiler
        install_truth_servers
        ;;
    studies)
        require_cargo
        require_compiler
        install_study_servers
        ;;
    fleet)
        require_cargo
        require_compiler
        mapfile -t packages < <(has nats-server || echo nats-server)
        require_packages "${packages[@]}"
        ;;
    dpdk)
        require_cargo
        require_compiler
        mapfile -t packages < <(missing_for_dpdk)
        require_packages "${packages[@]}"
        ;;
    dist)
        require_cargo
        require_compiler
        mapfile -t packages < <(missing_for_dist)
        require_packages "${packages[@]}"
        rustup --quiet target add "$(uname -m)-unknown-linux-musl"
        has cargo-auditable || cargo install --quiet --locked cargo-auditable --version "$auditable_version"
        ;;
    as-root) install_as_root "$@" ;;
    *)
        echo "setup: unknown purpose \`$what\`; known are evaluate, test, truth, studies, fleet, dist and dpdk" >&2
        exit "$exit_usage"
        ;;
    esac
}

main "$@"
