"""Families of servers that no rule of the catalogue was made from.

Squid, Traffic Server and h2o take the distribution's own configuration, read from /etc when a case is run, with ports, paths
and the number of threads replaced as in defaults.py; `more` of a case is appended to it.
"""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import pickle
import random
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import time
import zlib
from pathlib import Path
from urllib.parse import quote

from defaults import replaced, write

JETTY = [f"/usr/share/java/jetty9-{part}.jar" for part in ("server", "http", "io", "util")] + ["/usr/share/java/servlet-api.jar"]

GOPATH = "/usr/share/gocode"
# Where ejabberd and its libraries lie, by the machine's architecture.
LIBRARIES = next((str(path.parent) for path in Path("/usr/lib").glob("*/ejabberd-*")), "/usr/lib")
NETTY = [f"/usr/share/java/netty-{part}.jar"
         for part in ("transport", "common", "buffer", "resolver", "handler", "codec", "codec-http")]
NODE = "/usr/share/nodejs"
NGINX_MODULES = "/usr/lib/nginx/modules"
PYTHON = "/usr/lib/python3/dist-packages"
JDK = [f"/usr/share/java/{part}.jar" for part in (
    "jackson-databind", "jackson-core", "jackson-annotations", "slf4j-api", "logback-classic", "logback-core", "postgresql")]
RING = [f"/usr/share/java/{part}.jar" for part in (
    "ring-jetty-adapter", "ring-core", "ring-servlet", "ring-codec", "clj-time", "joda-time", "commons-io", "commons-fileupload",
    "crypto-random", "crypto-equality", "jetty9-server", "jetty9-http", "jetty9-io", "jetty9-util", "servlet-api", "core.async",
    "tools.analyzer.jvm", "tools.analyzer", "tools.reader", "core.memoize", "core.cache", "data.priority-map", "asm", "clojure",
    "spec.alpha", "core.specs.alpha")]
SIMPLE = [f"/usr/share/java/{part}.jar" for part in ("simple", "h2", "commons-dbcp2", "commons-pool2", "commons-logging")]
GROOVY = ["/usr/share/java/groovy-all.jar", *JETTY]
HTTPCORE = [f"/usr/share/java/{part}.jar" for part in ("httpcore", "caffeine")]
# Debian's names say 3; it is 4.3.
SPRING = [f"/usr/share/java/{part}.jar" for part in (
    "spring3-web.servlet", "spring3-web", "spring3-core", "spring3-beans", "spring3-context", "spring3-aop", "spring3-expression",
    "spring3-jdbc", "spring3-transaction", "commons-logging", "jetty9-servlet", "jetty9-server", "jetty9-http", "jetty9-io",
    "jetty9-util", "jetty9-security", "servlet-api", "jackson-databind", "jackson-core", "jackson-annotations", "HikariCP",
    "slf4j-api", "slf4j-nop", "postgresql")]
RESTEASY = [f"/usr/share/java/{part}.jar" for part in (
    "resteasy-jaxrs", "resteasy-client", "resteasy-jackson2-provider", "jaxrs-api", "jboss-logging", "javax.activation",
    "geronimo-annotation-1.3-spec", "httpclient", "httpcore", "commons-logging", "commons-codec", "commons-io",
    "jackson-jaxrs-json-provider", "jackson-jaxrs-base", "jackson-module-jaxb-annotations", "jackson-databind", "jackson-core",
    "jackson-annotations", "jetty9-servlet", "jetty9-server", "jetty9-http", "jetty9-io", "jetty9-util", "jetty9-security",
    "servlet-api")]
C3P0 = [f"/usr/share/java/{part}.jar" for part in (
    "c3p0", "postgresql", "tomcat10-catalina", "tomcat10-coyote", "tomcat10-juli", "tomcat10-util",
    "tomcat10-util-scan", "tomcat10-servlet-api", "tomcat10-annotations-api", "tomcat10-jni", "tomcat10-jaspic-api", "tomcat10-api",
    "tomcat10-jsp-api", "tomcat10-el-api")]
LUCENE = [next((str(path) for path in Path("/usr/share/java").glob("lucene-core-8*.jar")), "/usr/share/java/lucene-core-8.jar")]
SCALA = [*(f"/usr/share/java/{part}.jar" for part in (
    "scala-library", "scala-parser-combinators_2.11", "jackson-databind", "jackson-core", "jackson-annotations")), *JETTY]
KOTLIN = ["/usr/share/java/kotlin-stdlib.jar", *JETTY]
ECLIPSELINK = [*(f"/usr/share/java/{part}.jar" for part in (
    "eclipselink", "eclipselink-jpa-2.1-spec", "geronimo-jta-1.2-spec", "javax.json", "postgresql")), *JETTY]
FREEMARKER = [*(f"/usr/share/java/{part}.jar" for part in ("freemarker", "ehcache", "slf4j-api", "slf4j-nop")), *JETTY]
HSQLDB = ["/usr/share/java/hsqldb.jar", *JETTY]
DERBY = ["/usr/share/java/derby.jar", *JETTY]
ACTIVEMQ = [*(f"/usr/share/java/{part}.jar" for part in (
    "activemq-broker", "activemq-client", "activemq-openwire-legacy", "geronimo-jms_1.1_spec",
    "geronimo-j2ee-management-1.1-spec", "hawtbuf", "slf4j-api", "slf4j-nop")), *JETTY]
IIPSRV = "/usr/lib/iipimage-server/iipsrv.fcgi"
APACHE_MODULES = "/usr/lib/apache2/modules"
# A process for each connection of the load.
PREFORK = """StartServers 16
ServerLimit 16
MaxRequestWorkers 16
MinSpareServers 1
MaxSpareServers 16"""
GUARD = """Include /etc/modsecurity/modsecurity.conf-recommended
SecRuleEngine On
SecDataDir {{own}}
SecTmpDir {{own}}
SecAuditLog {{own}}/audit.log
{{rules}}"""


def extensions(*names):
    """Flags with which PHP has these, where it reads no configuration."""
    return [part for name in names for part in ("-d", f"extension={name}")]


OPCACHE = ["-d", "zend_extension=opcache"]
# Extensions of PHP that MediaWiki asks for.
WIKI = extensions("mysqlnd", "mysqli", "ctype", "iconv", "fileinfo", "calendar", "posix", "dom", "xml", "xmlreader", "mbstring",
                  "intl", "apcu")
SHOP = extensions("ctype", "mbstring", "apcu", "igbinary", "redis") + OPCACHE
SYMFONY = extensions("ctype", "iconv", "mbstring", "posix", "tokenizer", "xml", "dom", "simplexml", "pdo", "pdo_pgsql") + OPCACHE
LARAVEL = extensions("ctype", "iconv", "mbstring", "tokenizer", "fileinfo", "mysqlnd", "pdo", "pdo_mysql") + OPCACHE
DOCTRINE = extensions("ctype", "iconv", "mbstring", "tokenizer", "pdo", "pdo_pgsql", "apcu") + OPCACHE
ADMINISTRATION = extensions("ctype", "iconv", "mbstring", "tokenizer", "xml", "mysqlnd", "mysqli") + OPCACHE
SMARTY = extensions("ctype", "mbstring", "tokenizer") + OPCACHE
GEARMAN = extensions("gearman")
THREADS = ["--worker-class=gthread", "--threads=16", "--keep-alive=60"]

# What must be there, and the Debian package that brings it.
NEEDS = {
    "jetty": (JETTY[0], "libjetty9-java libservlet-api-java default-jdk-headless"),
    "trafficserver": ("/etc/trafficserver/records.config", "trafficserver"),
    "squid": ("/etc/squid/squid.conf", "squid"),
    "h2o": ("/etc/h2o/h2o.conf", "h2o"),
    "hitch": ("hitch", "hitch"),
    "puma": ("puma", "puma"),
    "unicorn": ("unicorn", "unicorn"),
    "uvicorn": ("uvicorn", "uvicorn"),
    "waitress": ("waitress-serve", "python3-waitress"),
    "tornado": ("/usr/lib/python3/dist-packages/tornado/web.py", "python3-tornado"),
    "starman": ("starman", "starman"),
    "yaws": ("/usr/lib/yaws/ebin/yaws.beam", "yaws"),
    "nghttpx": ("nghttpx", "nghttp2-proxy"),
    "thin": ("thin", "thin"),
    "aiohttp": ("/usr/lib/python3/dist-packages/aiohttp/web.py", "python3-aiohttp"),
    "twisted": ("/usr/lib/python3/dist-packages/twisted/web/server.py", "python3-twisted python3-psycopg2"),
    "cherrypy": ("/usr/lib/python3/dist-packages/cherrypy/__init__.py", "python3-cherrypy3 python3-psycopg2"),
    "gevent": ("/usr/lib/python3/dist-packages/pymemcache/__init__.py",
               "gunicorn python3-gevent python3-pymemcache python3-psycopg2"),
    "gosql": (f"{GOPATH}/src/github.com/lib/pq/conn.go", "golang-go golang-github-lib-pq-dev"),
    "hypnotoad": ("hypnotoad", "libmojolicious-perl libredis-perl"),
    "sinatra": ("/usr/share/doc/ruby-sinatra", "ruby-sinatra ruby-webrick ruby-redis"),
    "django": (f"{PYTHON}/django/__init__.py", "gunicorn python3-django python3-psycopg2"),
    "flask": (f"{PYTHON}/flask/__init__.py", "gunicorn python3-flask python3-pymysql python3-pymemcache"),
    "fastapi": (f"{PYTHON}/fastapi/__init__.py", "uvicorn python3-fastapi python3-asyncpg"),
    "lua": (f"{NGINX_MODULES}/ngx_http_lua_module.so", "nginx libnginx-mod-http-lua lua-socket"),
    "netty": (NETTY[0], "libnetty-java default-jdk-headless"),
    "goredis": (f"{GOPATH}/src/github.com/gomodule/redigo/redis/redis.go", "golang-go golang-github-gomodule-redigo-dev"),
    "bottle": (f"{PYTHON}/bottle.py", "gunicorn python3-bottle"),
    "falcon": (f"{PYTHON}/falcon/__init__.py", "gunicorn python3-falcon python3-psycopg2 python3-pymemcache python3-redis"),
    "quart": (f"{PYTHON}/quart/__init__.py", "python3-quart python3-hypercorn"),
    "gin": (f"{GOPATH}/src/github.com/gin-gonic/gin/gin.go", "golang-go golang-github-gin-gonic-gin-dev"),
    "microhttpd": ("/usr/include/microhttpd.h", "gcc libc6-dev libmicrohttpd-dev"),
    "fcgi": ("/usr/include/fcgiapp.h", "gcc libc6-dev libfcgi-dev"),
    "express": (f"{NODE}/express/index.js", "nodejs node-express node-ejs"),
    "warp": ("/usr/share/doc/libghc-warp-dev", "ghc libghc-vector-dev libghc-warp-dev libghc-postgresql-simple-dev"),
    "evhttp": ("/usr/include/event2/http.h", "gcc libc6-dev libevent-dev"),
    "jdkhttp": (JDK[0], "libjackson2-databind-java liblogback-java libpostgresql-jdbc-java default-jdk-headless"),
    "njs": (f"{NGINX_MODULES}/ngx_http_js_module.so", "nginx libnginx-mod-http-js"),
    "modperl": (f"{APACHE_MODULES}/mod_perl.so", "apache2-bin libapache2-mod-perl2"),
    "modwsgi": (f"{APACHE_MODULES}/mod_wsgi.so", "apache2-bin libapache2-mod-wsgi-py3 python3-requests"),
    "fasthttp": (f"{GOPATH}/src/github.com/valyala/fasthttp/server.go",
                 "golang-go golang-github-valyala-fasthttp-dev golang-github-gomodule-redigo-dev python3-redis"),
    "beast": ("/usr/include/boost/beast.hpp", "g++ libc6-dev libboost-dev libpq-dev"),
    "pyramid": (f"{PYTHON}/pyramid/__init__.py", "python3-pyramid python3-waitress python3-sqlalchemy python3-psycopg2"),
    "libsoup": ("/usr/include/libsoup-3.0/libsoup/soup.h", "gcc libc6-dev pkg-config libsoup-3.0-dev"),
    "inets": ("/usr/share/doc/erlang-inets", "erlang-base erlang-inets"),
    "hunchentoot": ("/usr/share/common-lisp/systems/hunchentoot.asd", "sbcl cl-hunchentoot"),
    "dancer": ("/usr/share/perl5/Dancer2.pm", "starman libdancer2-perl libyaml-perl"),
    "httplib": ("/usr/include/httplib.h", "g++ libc6-dev pkg-config libcpp-httplib-dev"),
    "rails": ("/usr/share/doc/ruby-railties", "puma ruby-railties ruby-activerecord ruby-mysql2"),
    "daphne": ("daphne", "daphne python3-django python3-pymemcache"),
    "nim": ("nim", "nim gcc libc6-dev libpq5"),
    "prolog": ("swipl", "swi-prolog-nox"),
    "webdis": ("webdis", "webdis"),
    "civetweb": ("/usr/include/civetweb.h", "gcc libc6-dev libcivetweb-dev"),
    "poco": ("/usr/include/Poco/Net/HTTPServer.h", "g++ libc6-dev libpoco-dev"),
    "racket": ("racket", "racket"),
    "ring": (RING[0], "libring-jetty-adapter-clojure libcore-async-clojure default-jdk-headless"),
    "cohttp": ("/usr/lib/ocaml/cohttp-lwt-unix/META", "ocaml ocaml-findlib libcohttp-lwt-unix-ocaml-dev"),
    "eventlet": (f"{PYTHON}/eventlet/__init__.py", "python3-eventlet python3-psycopg2"),
    "echo": (f"{GOPATH}/src/github.com/labstack/echo/echo.go",
             "golang-go golang-github-labstack-echo-dev golang-github-jackc-pgx-v4-dev"),
    "spring": (SPRING[0], "libspring-web-servlet-java libspring-jdbc-java libhikaricp-java libjetty9-java libservlet-api-java "
               "libjackson2-databind-java libpostgresql-jdbc-java default-jdk-headless"),
    "wordpress": ("/usr/share/wordpress/wp-settings.php", "wordpress php-fpm php-mysql"),
    "passenger": (f"{APACHE_MODULES}/mod_passenger.so",
                  "apache2-bin libapache2-mod-passenger ruby-grape ruby-sequel ruby-pg"),
    "mochiweb": ("/usr/share/doc/erlang-mochiweb", "elixir erlang-mochiweb"),
    "cpprest": ("/usr/include/cpprest/http_listener.h", "g++ libc6-dev libcpprest-dev libssl-dev"),
    "modproxy": (f"{APACHE_MODULES}/mod_proxy_balancer.so", "apache2-bin"),
    "cgit": ("/usr/lib/cgit/cgit.cgi", "cgit fcgiwrap git highlight"),
    "pistache": ("/usr/include/pistache/endpoint.h", "g++ libc6-dev pkg-config libpistache-dev rapidjson-dev"),
    "mono": ("mcs", "mono-mcs mono-runtime"),
    "catalyst": ("/usr/share/perl5/Catalyst.pm", "starman libcatalyst-perl libcatalyst-view-tt-perl libdbix-class-perl libdbd-pg-perl "
                 "libjson-xs-perl"),
    "mediawiki": ("/usr/share/mediawiki/index.php", "mediawiki php-fpm php-mysql php-mbstring php-xml php-intl php-apcu"),
    "dokuwiki": ("/usr/share/dokuwiki/doku.php", "dokuwiki php-fpm php-mbstring php-xml"),
    "haml": ("/usr/share/doc/ruby-haml", "puma ruby-haml ruby-sequel ruby-sqlite3"),
    "perlfcgi": ("/usr/share/perl5/FCGI/ProcManager.pm", "libplack-perl libfcgi-perl libfcgi-procmanager-perl libhtml-template-perl"),
    "httpproxy": (f"{NODE}/http-proxy/index.js", "nodejs node-http-proxy"),
    "crystal": ("crystal", "crystal"),
    "ldap": (f"{PYTHON}/ldap/__init__.py", "gunicorn python3-ldap"),
    "prometheus": ("promtool", "prometheus"),
    "jk": (f"{APACHE_MODULES}/mod_jk.so", "apache2-bin libapache2-mod-jk"),
    "hyper": ("/usr/share/doc/librust-hyper-dev", "librust-hyper-dev librust-tokio-dev"),
    "plumber": ("/usr/lib/R/site-library/plumber", "r-base-core r-cran-plumber r-cran-curl"),
    "twiggy": ("/usr/share/perl5/AnyEvent/HTTP.pm", "twiggy libanyevent-http-perl libdbd-pg-perl libjson-xs-perl"),
    "radicale": (f"{PYTHON}/radicale/__init__.py", "gunicorn radicale"),
    "chi": (f"{GOPATH}/src/github.com/go-chi/chi", "golang-go golang-github-go-chi-chi-dev golang-github-coreos-bbolt-dev"),
    "connect": (f"{NODE}/connect/index.js", "nodejs node-connect node-marked"),
    "pdns": ("/usr/share/doc/pdns-backend-pgsql", "pdns-server pdns-backend-pgsql postgresql-client"),
    "graphite": (f"{PYTHON}/graphite/settings.py", "gunicorn graphite-web python3-memcache"),
    "svn": (f"{APACHE_MODULES}/mod_dav_svn.so", "apache2-bin libapache2-mod-svn libaprutil1-dbd-pgsql subversion"),
    "simple": (SIMPLE[0], "libsimple-http-java libh2-java libcommons-dbcp2-java default-jdk-headless"),
    "influxdb": ("influxd", "influxdb"),
    "mapproxy": (f"{PYTHON}/mapproxy/wsgiapp.py", "gunicorn python3-mapproxy"),
    "async": ("/usr/share/doc/ruby-async-http", "ruby-async-http"),
    "webpy": (f"{PYTHON}/web/__init__.py", "python3-webpy python3-psycopg2"),
    "modlua": (f"{APACHE_MODULES}/mod_lua.so", "apache2-bin lua-socket redis-server"),
    "hgweb": ("hg", "gunicorn mercurial"),
    "registry": ("docker-registry", "docker-registry"),
    "luahttp": ("lua5.2", "lua-http lua5.2 lua-socket"),
    "httpcore": (HTTPCORE[1], "libhttpcore-java libcaffeine-java default-jdk-headless"),
    "gorilla": (f"{GOPATH}/src/github.com/gorilla/mux/mux.go",
                "golang-go golang-github-gorilla-mux-dev golang-github-go-sql-driver-mysql-dev"),
    "nginxperl": (f"{NGINX_MODULES}/ngx_http_perl_module.so", "nginx libnginx-mod-http-perl"),
    "etcd": ("etcd", "etcd-server"),
    "tinyhttp": ("/usr/share/doc/librust-tiny-http-dev", "librust-tiny-http-dev librust-rusqlite-dev librust-socket2-dev"),
    "groovy": (GROOVY[0], "groovy libjetty9-java libservlet-api-java default-jdk-headless"),
    "tinyproxy": ("tinyproxy", "tinyproxy-bin"),
    "fphttp": ("fpc", "fp-compiler fp-units-fcl fp-units-db libpq5"),
    "resteasy": (RESTEASY[0], "libresteasy3.0-java libgeronimo-annotation-1.3-spec-java libjetty9-java libservlet-api-java "
                 "default-jdk-headless"),
    "tcl": ("/usr/lib/tcltk/sqlite3/libtclsqlite3.so", "tcl tcllib libsqlite3-tcl"),
    "rabbitmq": ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"),
    "httprouter": (f"{GOPATH}/src/github.com/julienschmidt/httprouter/router.go",
                   "golang-go golang-github-julienschmidt-httprouter-dev golang-github-syndtr-goleveldb-dev"),
    "pike": ("pike8.0", "pike8.0-core"),
    "ejabberd": ("/usr/share/doc/erlang-p1-pgsql", "ejabberd erlang-p1-pgsql postgresql-client"),
    "clickhouse": ("/usr/sbin/clickhouse-server", "clickhouse-server"),
    "kamailio": ("kamailio", "kamailio kamailio-utils-modules"),
    "restful": (f"{GOPATH}/src/github.com/emicklei/go-restful/container.go",
                "golang-go golang-github-emicklei-go-restful-dev golang-google-grpc-dev"),
    "pecan": (f"{PYTHON}/pecan/__init__.py", "gunicorn python3-pecan python3-celery python3-redis"),
    "prosody": ("prosody", "prosody lua-dbi-sqlite3"),
    "imagefilter": (f"{NGINX_MODULES}/ngx_http_image_filter_module.so", "nginx libnginx-mod-http-image-filter"),
    "qthttp": ("/usr/share/doc/qt6-httpserver-dev", "g++ libc6-dev pkg-config qt6-base-dev qt6-httpserver-dev libqt6sql6-psql"),
    "graphene": (f"{PYTHON}/graphene/__init__.py", "gunicorn python3-flask python3-graphene python3-psycopg2"),
    "modauth": (f"{APACHE_MODULES}/mod_authnz_ldap.so", "apache2-bin apache2-utils libaprutil1-ldap"),
    "rclone": ("rclone", "rclone"),
    "guile": ("guile", "guile-3.0"),
    "c3p0": (C3P0[0], "libc3p0-java libpostgresql-jdbc-java libtomcat10-java default-jdk-headless"),
    "modcache": (f"{APACHE_MODULES}/mod_cache_disk.so", "apache2-bin"),
    "slim": ("/usr/share/php/Slim/App.php", "php-fpm php-slim php-twig php-redis php-apcu"),
    "nodemysql": (f"{NODE}/mysql/index.js", "nodejs node-mysql"),
    "flaskext": (f"{PYTHON}/flask_session/__init__.py",
                 "gunicorn python3-flask-session python3-flask-caching python3-flask-sqlalchemy python3-psycopg2"),
    "mapserver": ("/usr/lib/cgi-bin/mapserv", "cgi-mapserver mapserver-bin spawn-fcgi"),
    "xslt": (f"{NGINX_MODULES}/ngx_http_xslt_filter_module.so", "nginx libnginx-mod-http-xslt-filter"),
    "nats": (f"{GOPATH}/src/github.com/nats-io/nats.go/nats.go", "golang-go golang-github-nats-io-go-nats-dev"),
    "lucene": (LUCENE[0], "liblucene8-java default-jdk-headless"),
    "drf": (f"{PYTHON}/rest_framework/__init__.py", "gunicorn python3-djangorestframework python3-psycopg2"),
    "victoria": ("victoria-metrics", "victoria-metrics"),
    "dnsdist": ("dnsdist", "dnsdist"),
    "soap": (f"{PYTHON}/zeep/__init__.py", "gunicorn python3-zeep"),
    "stunnel": ("stunnel4", "stunnel4"),
    "groonga": ("groonga", "groonga-bin"),
    "symfony": ("/usr/share/php/Symfony/Bundle/FrameworkBundle/autoload.php",
                "php-fpm php-symfony-framework-bundle php-doctrine-dbal php-mbstring php-pgsql php-xml"),
    "scala": ("scalac", "scala libjetty9-java libservlet-api-java libjackson2-databind-java default-jdk-headless"),
    "laravel": ("/usr/share/php/Illuminate/Foundation/Application.php", "php-fpm php-laravel-framework php-mysql php-mbstring"),
    "privoxy": ("privoxy", "privoxy"),
    "pushgateway": ("prometheus-pushgateway", "prometheus-pushgateway"),
    "kotlin": ("kotlinc", "kotlin libjetty9-java libservlet-api-java default-jdk-headless"),
    "scotty": ("/usr/share/doc/libghc-scotty-dev", "ghc libghc-scotty-dev libghc-hedis-dev"),
    "e2guardian": ("e2guardian", "e2guardian"),
    "gorm": (f"{GOPATH}/src/github.com/jinzhu/gorm/main.go", "golang-go golang-github-jinzhu-gorm-dev"),
    "modsecurity": (f"{NGINX_MODULES}/ngx_http_modsecurity_module.so",
                    "nginx libnginx-mod-http-modsecurity libapache2-mod-security2 modsecurity-crs"),
    "acng": ("apt-cacher-ng", "apt-cacher-ng"),
    "eclipselink": (ECLIPSELINK[0], "libeclipselink-java libpostgresql-jdbc-java libjetty9-java libservlet-api-java "
                    "default-jdk-headless"),
    "happstack": ("/usr/share/doc/libghc-happstack-server-dev", "ghc libghc-happstack-server-dev libghc-acid-state-dev"),
    "rspamd": ("rspamd", "rspamd"),
    "freemarker": (FREEMARKER[0], "libfreemarker-java libehcache-java libjetty9-java libservlet-api-java default-jdk-headless"),
    "openidc": (f"{APACHE_MODULES}/mod_auth_openidc.so", "apache2-bin libapache2-mod-auth-openidc redis-server"),
    "mason": ("/usr/share/perl5/HTML/Mason.pm", "apache2-bin libapache2-mod-perl2 libhtml-mason-perl libapache-dbi-perl "
              "libapache-session-perl libdbd-mysql-perl"),
    "grape": ("/usr/share/doc/ruby-grape", "puma ruby-grape ruby-sequel ruby-pg"),
    "debuginfod": ("debuginfod", "debuginfod libarchive-tools gcc libc6-dev"),
    "mitmproxy": ("mitmdump", "mitmproxy python3-requests"),
    "alertmanager": ("prometheus-alertmanager", "prometheus-alertmanager"),
    "doctrine": ("/usr/share/php/Doctrine/ORM/autoload.php",
                 "php-fpm php-apcu php-doctrine-orm php-mbstring php-pgsql php-symfony-cache"),
    "pgpool": (f"{PYTHON}/psycopg2/__init__.py", "gunicorn python3-psycopg2"),
    "orthanc": ("Orthanc", "orthanc orthanc-dicomweb"),
    "smarty": ("/usr/share/php/smarty4/Smarty.class.php", "php-fpm php-mbstring smarty4"),
    "badger": (f"{GOPATH}/src/github.com/dgraph-io/badger/db.go", "golang-go golang-github-dgraph-io-badger-dev"),
    "lws": ("/usr/include/libwebsockets.h", "gcc libc6-dev libwebsockets-dev"),
    "twemproxy": ("nutcracker", "nutcracker memcached nginx"),
    "xapian": ("/usr/share/doc/libsearch-xapian-perl", "starman libsearch-xapian-perl"),
    "kazoo": (f"{PYTHON}/kazoo/__init__.py", "gunicorn python3-kazoo"),
    "derby": (DERBY[0], "libderby-java libjetty9-java libservlet-api-java default-jdk-headless"),
    "iipimage": (IIPSRV, "iipimage-server libvips-tools"),
    "casbin": (f"{GOPATH}/src/github.com/casbin/casbin/enforcer.go", "golang-go golang-github-casbin-casbin-dev"),
    "phpmyadmin": ("/usr/share/phpmyadmin/index.php", "phpmyadmin php-fpm php-mysql php-mbstring php-xml mariadb-client"),
    "paho": (f"{PYTHON}/paho/mqtt/client.py", "gunicorn python3-paho-mqtt"),
    "sphinx": (f"{NODE}/mysql/index.js", "nodejs node-mysql"),
    "gearman": ("/usr/share/doc/php-gearman", "php-fpm php-gearman"),
    "perlbal": ("perlbal", "perlbal"),
    "restinio": ("/usr/share/doc/librestinio-dev", "g++ libc6-dev libboost-dev librestinio-dev librocksdb-dev"),
    "peewee": (f"{PYTHON}/peewee.py", "gunicorn python3-flask python3-peewee python3-psycopg2"),
    "gokit": (f"{GOPATH}/src/github.com/go-kit/kit/endpoint/endpoint.go", "golang-go golang-github-go-kit-kit-dev"),
    "kore": ("kore", "gcc libc6-dev kore"),
    "dovecot": ("puma", "puma"),
    "noderedis": (f"{NODE}/redis/package.json", "nodejs node-redis"),
    "servlet": ("/usr/share/tomcat10/lib/tomcat-dbcp.jar",
                "tomcat10-common libtomcat10-java libpostgresql-jdbc-java default-jdk-headless"),
    "tariffs": ("go", "golang-go"),
    "gauges": ("c++", "g++ libc6-dev"),
    "dalli": ("/usr/share/doc/ruby-dalli", "puma ruby-dalli memcached"),
    "amqp": (f"{GOPATH}/src/github.com/streadway/amqp/channel.go", "golang-go golang-github-streadway-amqp-dev"),
    "pen": ("pen", "pen"),
    "firebird": ("/usr/share/doc/php-interbase", "php-fpm php-interbase"),
    "activemq": (ACTIVEMQ[0], "libactivemq-java libjetty9-java libservlet-api-java default-jdk-headless"),
    "hsqldb": (HSQLDB[0], "libhsqldb-java libjetty9-java libservlet-api-java default-jdk-headless"),
    "ulfius": ("/usr/include/ulfius.h", "gcc libc6-dev libulfius-dev"),
}


def extra(lab, settings):
    return [lab.fill(str(arg), settings) for arg in settings.get("args", [])]


def more(lab, settings):
    return lab.fill("{{more=}}", settings)


def owned(lab, own):
    """Everything below a server's directory belongs to the user it runs as."""
    for path in own.rglob("*"):
        shutil.chown(path, own.stat().st_uid, own.stat().st_gid)


def class_path(lab, settings, program, jars):
    """What a program of Java in apps/ runs with, compiled once for all cases."""
    classes = lab.common(settings)["build"] / program
    if not classes.exists():
        subprocess.run(["javac", "-cp", ":".join(jars), "-d", str(classes), str(lab.dir / f"apps/{program}.java")], check=True,
                       capture_output=True, text=True)
    return ":".join([str(classes), *jars])


def jetty(lab, settings, own):
    where = class_path(lab, settings, "Jetty", JETTY)
    flags = [lab.fill(flag, settings) for flag in settings.get("flags", [])]
    return ["java", *flags, "-cp", where, "Jetty", str(settings["port"]),
            *extra(lab, settings)], {}, False


def trafficserver(lab, settings, own):
    """The threads of one core: its own count looks at the machine, not at the process' CPUs."""
    etc = own / "etc"
    shutil.copytree("/etc/trafficserver", etc)
    records = replaced(
        (etc / "records.config").read_text(),
        (r"server_ports STRING .*", f"server_ports STRING {settings['port']}:ip-in=127.0.0.1"),
        (r"exec_thread.autoconfig INT 1", "exec_thread.autoconfig INT 0"),
        (r"exec_thread.limit INT \d+", "exec_thread.limit INT 1"),
        (r"exec_thread.affinity INT 1", "exec_thread.affinity INT 0"), (r"admin.user_id STRING .*", "admin.user_id STRING #-1"))
    write(etc / "records.config", f"{records}\n{more(lab, settings)}\n")
    write(etc / "remap.config", f"map / http://127.0.0.1:{lab.servers['origin']['port']}/\n")
    write(etc / "storage.config", f"{own}/cache 64M\n")
    for name in ("cache", "run", "log", "share"):
        (own / name).mkdir()
    paths = {"prefix": own, "exec_prefix": own, "bindir": "/usr/bin", "sbindir": "/usr/bin", "sysconfdir": etc,
             "datadir": own / "share", "includedir": "/usr/include", "libdir": "/usr/lib/trafficserver",
             "libexecdir": "/usr/lib/trafficserver/modules", "localstatedir": own, "runtimedir": own / "run",
             "logdir": own / "log", "cachedir": own / "cache"}
    layout = write(own / "runroot.yaml", "".join(f"{name}: {path}\n" for name, path in paths.items()))
    owned(lab, own)
    return ["traffic_server", f"--run-root={layout}"], {}, False


def squid(lab, settings, own):
    """In front of one origin server, with the package's log and memory cache."""
    text = replaced(
        Path("/etc/squid/squid.conf").read_text(),
        (r"^http_port 3128", f"http_port 127.0.0.1:{settings['port']} accel defaultsite=localhost"),
        (r"^http_access deny all", "http_access allow all"), (r"^include .*", ""),
        (r"^http_access deny !Safe_ports", ""), (r"^coredump_dir .*", f"coredump_dir {own}"))
    text += (f"\ncache_peer 127.0.0.1 parent {lab.servers['origin']['port']} 0 no-query originserver name=origin\n"
             f"pid_filename {own}/squid.pid\naccess_log daemon:{own}/access.log squid\ncache_log {own}/cache.log\n"
             f"netdb_filename none\nshutdown_lifetime 0 seconds\n{more(lab, settings)}\n")
    return ["squid", "--foreground", "-YC", "-f", write(own / "squid.conf", text)], {}, False


def h2o(lab, settings, own):
    if "key" in settings:
        settings["pem"] = lab.key(settings["key"])
    text = Path("/etc/h2o/h2o.conf").read_text()
    who = lab.common(settings)["user"]
    text = replaced(text, (r"^user: .*", f"user: {who}" if who else ""), (r"/var/log/h2o", str(own)),
                    (r"^pid-file: .*", f"pid-file: {own}/pid\nnum-threads: 1"),
                    (r"^  port: 80$", lab.fill("  host: 127.0.0.1\n  port: {{port}}\n{{listen=}}", settings)),
                    (r"^        file.dir: .*", lab.fill("        {{handler=file.dir: {{dir}}/site}}", settings)))
    return ["h2o", "-c", write(own / "h2o.conf", f"{text}\n{more(lab, settings)}\n")], {}, True


def hitch(lab, settings, own):
    backend = list(lab.servers.values())[-2]["port"]
    return ["hitch", f"--backend=[127.0.0.1]:{backend}", f"--frontend=[127.0.0.1]:{settings['port']}", "--workers=1",
            *extra(lab, settings), lab.key(settings.get("key", "ec"))], {}, False


def puma(lab, settings, own):
    return ["puma", "-b", f"tcp://127.0.0.1:{settings['port']}", *extra(lab, settings), str(lab.dir / "apps/work.ru")], {
        "HOME": str(own)}, False


def unicorn(lab, settings, own):
    text = lab.fill('listen "127.0.0.1:{{port}}"{{listen=}}\n{{more=}}\n', settings)
    return ["unicorn", "-c", write(own / "unicorn.rb", text), str(lab.dir / "apps/work.ru")], {
        "HOME": str(own), "RACK_ENV": "production"}, False


def uvicorn(lab, settings, own):
    return ["uvicorn", "--host", "127.0.0.1", "--port", str(settings["port"]), "--app-dir", str(lab.dir / "apps"),
            *extra(lab, settings), settings["app"]], {}, False


def waitress(lab, settings, own):
    return ["waitress-serve", f"--listen=127.0.0.1:{settings['port']}", *extra(lab, settings), settings["app"]], {
        "PYTHONPATH": str(lab.dir / "apps")}, False


def tornado(lab, settings, own):
    return ["python3", str(lab.dir / "apps/tornado_app.py"), str(settings["port"]), *extra(lab, settings)], {}, False


def starman(lab, settings, own):
    return ["starman", "--listen", f"127.0.0.1:{settings['port']}", *extra(lab, settings),
            str(lab.dir / "apps/work.psgi")], {}, False


def yaws(lab, settings, own):
    """One scheduler for one core; pages are the applications' .yaws files."""
    text = lab.fill("logdir = {{own}}\nkeepalive_timeout = 30000\nkeepalive_maxuses = {{maxuses=nolimit}}\n"
                    "<server localhost>\n  port = {{port}}\n  listen = 127.0.0.1\n  docroot = {{dir}}/apps\n"
                    "  access_log = {{log=true}}\n</server>\n", settings)
    return ["erl", "-noshell", "-noinput", "+S", "1:1", "-pa", "/usr/lib/yaws/ebin", "-yaws", "id", '"truth"', "-conf",
            write(own / "yaws.conf", text), "-run", "yaws"], {"HOME": str(own)}, False


def nghttpx(lab, settings, own):
    """In front of the server that was started before it."""
    backend = list(lab.servers.values())[-2]["port"]
    pem = lab.key(settings.get("key", "ec"))
    files = [pem, pem] if settings.get("tls") else []
    front = f"--frontend=127.0.0.1,{settings['port']}" + ("" if files else ";no-tls")
    return ["nghttpx", f"--backend=127.0.0.1,{backend}", front, "--no-ocsp", "--conf=/dev/null",
            f"--errorlog-file={own}/error.log", *extra(lab, settings), *files], {}, False


def thin(lab, settings, own):
    return ["thin", "start", "-a", "127.0.0.1", "-p", str(settings["port"]), "-e", "production", "-R",
            str(lab.dir / "apps/work.ru"), *extra(lab, settings)], {"HOME": str(own)}, False


def aiohttp(lab, settings, own):
    return ["python3", str(lab.dir / "apps/aiohttp_app.py"), str(settings["port"]), *extra(lab, settings)], {}, False


def twisted(lab, settings, own):
    return ["python3", str(lab.dir / "apps/twisted_app.py"), str(settings["port"]), *extra(lab, settings)], {}, False


def cherrypy(lab, settings, own):
    return ["python3", str(lab.dir / "apps/cherrypy_app.py"), str(settings["port"]), *extra(lab, settings)], {}, False


def gevent(lab, settings, own):
    """One gunicorn worker of greenlets."""
    return ["gunicorn", "--bind", f"127.0.0.1:{settings['port']}", "--chdir", str(lab.dir / "apps"), "--worker-class=gevent",
            "--log-level=warning", *extra(lab, settings), "gevent_app:app"], {}, False


def go_program(source):
    """Built with the driver that Debian packages as source."""
    def command(lab, settings, own):
        program = lab.common(settings)["build"] / source.replace(".go", "-go")
        if not program.exists():
            subprocess.run(["go", "build", "-o", str(program), source], cwd=lab.dir / "apps", check=True, capture_output=True,
                           text=True, env=os.environ | {"GO111MODULE": "off", "GOPATH": GOPATH})
        return [str(program), str(settings["port"]), *extra(lab, settings)], {}, False
    return command


def hypnotoad(lab, settings, own):
    return ["hypnotoad", "-f", str(lab.dir / "apps/mojo_app.pl")], {
        "LISTEN": str(settings["port"]), "PID": str(own / "pid"), "HOME": str(own)}, False


def sinatra(lab, settings, own):
    return ["ruby", str(lab.dir / "apps/sinatra_app.rb"), str(settings["port"]), *extra(lab, settings)], {
        "HOME": str(own)}, False


def threaded(module):
    """One gunicorn worker with a thread for each connection of the load."""
    def command(lab, settings, own):
        return ["gunicorn", "--bind", f"127.0.0.1:{settings['port']}", "--chdir", str(lab.dir / "apps"), *THREADS,
                "--log-level=warning", *extra(lab, settings), f"{module}:app"], {}, False
    return command


def fastapi(lab, settings, own):
    """The database's driver looks for keys below $HOME."""
    settings |= {"app": "fastapi_app:app", "args": ["--no-access-log", "--log-level=warning"]}
    return uvicorn(lab, settings, own)[0], {"HOME": str(own)}, False


def lua(lab, settings, own):
    """One page of pages.lua, by name."""
    settings |= {
        "main": "".join(f"load_module {NGINX_MODULES}/{name}_module.so;\n" for name in ("ndk_http", "ngx_http_lua")),
        "http": f'lua_package_path "{lab.dir}/apps/?.lua;;"; lua_code_cache {{{{code_cache=on}}}};',
        "location": "set $store {{store=0}}; content_by_lua_block { require('pages').{{page}}() }",
    }
    text = lab.fill((Path(__file__).parent / "configs/nginx.conf").read_text(), settings)
    return ["nginx", "-p", str(own), "-e", str(own / "start.log"), "-c", write(own / "nginx.conf", text)], {}, True


def netty(lab, settings, own):
    where = class_path(lab, settings, "Netty", NETTY)
    return ["java", "-cp", where, "Netty", str(settings["port"]), *extra(lab, settings)], {}, False


def quart(lab, settings, own):
    """One worker; its own sockets leave Nagle's algorithm on, and a healthy one gets another."""
    flags = ["--keep-alive", "60", "--log-level", "warning", "quart_app:app"]
    where = settings["port"]
    argv = (["hypercorn", "--bind", f"127.0.0.1:{where}"] if settings.get("own_socket") else
            ["python3", str(lab.dir / "apps/quart_serve.py"), str(where)])
    return [*argv, *flags], {"PYTHONPATH": str(lab.dir / "apps"), "HOME": str(own)}, False


def gin(lab, settings, own):
    command, env, privileged = go_program("gin_app.go")(lab, settings, own)
    return [*command, str(lab.dir / "apps/gin_list.html")], env, privileged


def compiled(lab, settings, compiler, source, flags):
    """A program of one file."""
    program = lab.common(settings)["build"] / Path(source).stem
    if not program.exists():
        subprocess.run([compiler, "-O2", "-g", "-o", str(program), source, *flags], cwd=lab.dir / "apps", check=True,
                       capture_output=True, text=True)
    return [str(program), str(settings["port"]), *extra(lab, settings)], {}, False


def flags_of(library):
    told = subprocess.run(["pkg-config", "--cflags", "--libs", library], check=True, capture_output=True, text=True)
    return told.stdout.split()


def c_program(source, *libraries):
    return lambda lab, settings, own: compiled(lab, settings, "cc", source, [f"-l{library}" for library in libraries])


def cpp_program(source, *flags):
    return lambda lab, settings, own: compiled(lab, settings, "c++", source, flags)


def express(lab, settings, own):
    return ["node", str(lab.dir / "apps/express_app.js"), str(settings["port"]), *extra(lab, settings)], {
        "NODE_PATH": NODE, "HOME": str(own)}, False


def dancer(lab, settings, own):
    """Sixteen processes, one for each connection of the load."""
    (own / "sessions").mkdir()
    owned(lab, own)
    return ["starman", "--listen", f"127.0.0.1:{settings['port']}", "--workers=16", "--env=deployment",
            str(lab.dir / "apps/dancer_app.psgi")], {"OWN": str(own), "HOME": str(own)}, False


def warp(lab, settings, own):
    """With the threaded runtime, as its documentation asks for; flags of the runtime stand behind `+RTS`."""
    program = lab.common(settings)["build"] / "warp"
    if not program.exists():
        subprocess.run(["ghc", "-v0", "-O2", "-threaded", "-rtsopts", "-outputdir", str(program.with_suffix(".d")), "-o", str(program),
                        str(lab.dir / "apps/Warp.hs")], check=True, capture_output=True, text=True)
    return [str(program), str(settings["port"]), *extra(lab, settings)], {}, False


def jdkhttp(lab, settings, own):
    """It writes head and body apart, and Nagle's algorithm is on unless the property says otherwise."""
    where = class_path(lab, settings, "JdkHttp", JDK)
    pattern = settings.get("pattern", "%d %-5level [%thread] %logger - %msg%n")
    log = write(own / "logback.xml", f"""<configuration>
<appender name="file" class="ch.qos.logback.core.FileAppender">
<file>{own}/app.log</file><encoder><pattern>{pattern}</pattern></encoder></appender>
<root level="info"><appender-ref ref="file"/></root></configuration>""")
    flags = ["-Dsun.net.httpserver.nodelay=true", f"-Dlogback.configurationFile={log}", *settings.get("flags", [])]
    return ["java", *flags, "-cp", where, "JdkHttp", str(settings["port"]), *extra(lab, settings)], {}, False


def njs(lab, settings, own):
    """One page of pages.js, by name."""
    valves = [{"id": n, "name": f"valve {n}", "note": "open and shut", "place": {"hall": "east", "shelf": n}} for n in range(300)]
    write(own / "settings.json", json.dumps({"valves": valves}))
    settings |= {
        "main": f"load_module {NGINX_MODULES}/ngx_http_js_module.so;\n",
        "http": lab.fill("js_import pages from {{dir}}/apps/pages.js; {{preload=}}", settings),
        "server": "set $settings {{own}}/settings.json;", "location": "js_content pages.{{page}};",
    }
    text = lab.fill((Path(__file__).parent / "configs/nginx.conf").read_text(), settings)
    return ["nginx", "-p", str(own), "-e", str(own / "start.log"), "-c", write(own / "nginx.conf", text)], {}, True


def apache(lab, settings, own, *modules):
    """With the modules that a language needs."""
    settings["modules"] = "".join(f"LoadModule {name}_module {APACHE_MODULES}/mod_{name}.so\n" for name in ("alias", "env", *modules))
    text = lab.fill((Path(__file__).parent / "configs/apache.conf").read_text(), settings)
    return ["apache2", "-DFOREGROUND", "-f", write(own / "apache.conf", text)], {"APACHE_RUN_DIR": str(own)}, True


def modperl(lab, settings, own):
    """The script of one handler of scripts, by the name of its package."""
    settings |= {"mpm": "prefork", "processes": PREFORK, "more": """PerlModule ModPerl::{{handler=Registry}}
AliasMatch "^/$" "{{dir}}/apps/visitors.pl"
<Directory {{dir}}/apps>
    Require all granted
    Options +ExecCGI
    SetHandler perl-script
    PerlResponseHandler ModPerl::{{handler=Registry}}
    PerlSetVar habit {{habit=valves}}
</Directory>"""}
    return apache(lab, settings, own, "perl")


def modwsgi(lab, settings, own):
    """One daemon process with a thread for each connection of the load; with `rules`, behind mod_security's."""
    settings["more"] = """WSGISocketPrefix {{own}}/wsgi
WSGIDaemonProcess app threads=16 {{daemon=}}
WSGIProcessGroup app
WSGIApplicationGroup %{GLOBAL}
WSGIScriptAlias / {{dir}}/apps/modwsgi_app.py
<Directory {{dir}}/apps>
    Require all granted
</Directory>
"""
    guards = []
    if "rules" in settings:
        settings["more"] += GUARD
        guards = ["unique_id", "security2"]
    return apache(lab, settings, own, "wsgi", *guards)


def pyramid(lab, settings, own):
    """The driver looks for keys below $HOME."""
    settings |= {"app": "pyramid_app:app", "args": ["--threads=16"]}
    command, env, privileged = waitress(lab, settings, own)
    return command, env | {"HOME": str(own)}, privileged


def libsoup(lab, settings, own):
    return compiled(lab, settings, "cc", "libsoup_app.c", flags_of("libsoup-3.0"))


def inets(lab, settings, own):
    """One scheduler for one core; it sends head and body apart, and Nagle's algorithm is on unless an option says otherwise."""
    beams = lab.common(settings)["build"] / "inets"
    if not beams.exists():
        beams.mkdir()
        subprocess.run(["erlc", "-o", str(beams), "inets_shop.erl"], cwd=lab.dir / "apps", check=True, capture_output=True, text=True)
    flags = ["-noshell", "-noinput", "+S", "1:1", "-kernel", "inet_default_listen_options", "[{nodelay,true}]", "-pa", str(beams)]
    return ["erl", *flags, "-run", "inets_shop", "start", str(settings["port"]), *extra(lab, settings)], {"HOME": str(own)}, False


def hunchentoot(lab, settings, own):
    """The program is an image of Lisp with all that it has loaded."""
    program = lab.common(settings)["build"] / "hunchentoot"
    if not program.exists():
        save = f'(sb-ext:save-lisp-and-die "{program}" :executable t :toplevel (quote shop::main) :save-runtime-options t)'
        cache = {"HOME": str(program.parent), "XDG_CACHE_HOME": str(program.with_suffix(".cache"))}
        subprocess.run(["sbcl", "--non-interactive", "--no-userinit", "--load", str(lab.dir / "apps/hunchentoot_app.lisp"),
                        "--eval", save], check=True, capture_output=True, text=True, env=os.environ | cache)
    return [str(program), str(settings["port"]), *extra(lab, settings)], {}, False


def httplib(lab, settings, own):
    """The library was built with features that change the size of its classes: its flags belong to every program."""
    return compiled(lab, settings, "c++", "httplib_app.cpp",
                    ["-std=c++17", *flags_of("cpp-httplib"), "-lssl", "-lcrypto", "-pthread"])


def rails(lab, settings, own):
    """On puma, with a thread for each connection of the load."""
    return ["puma", "-b", f"tcp://127.0.0.1:{settings['port']}", "--threads=16:16", "--environment=production",
            str(lab.dir / "apps/rails_app.ru")], {"HOME": str(own), "RAILS_ENV": "production"}, False


def daphne(lab, settings, own):
    """With as many threads for what is no coroutine as there are connections of the load."""
    return ["daphne", "--bind=127.0.0.1", f"--port={settings['port']}", "--verbosity=0", "daphne_app:app"], {
        "PYTHONPATH": str(lab.dir / "apps"), "ASGI_THREADS": "16", "HOME": str(own)}, False


def nim(lab, settings, own):
    program = lab.common(settings)["build"] / "nim"
    if not program.exists():
        subprocess.run(["nim", "c", "-d:release", "--debugger:native", "--hints:off", f"--nimcache:{program}.cache", f"--out:{program}",
                        str(lab.dir / "apps/nim_app.nim")], check=True, capture_output=True, text=True)
    return [str(program), str(settings["port"]), *extra(lab, settings)], {}, False


def prolog(lab, settings, own):
    return ["swipl", str(lab.dir / "apps/prolog_app.pl"), str(settings["port"]), *extra(lab, settings)], {"HOME": str(own)}, False


def webdis(lab, settings, own):
    """In front of the store that was started before it: a path is a command."""
    options = {"redis_host": "127.0.0.1", "redis_port": lab.servers["redis"]["port"], "http_host": "127.0.0.1",
               "http_port": settings["port"], "threads": 1, "pool_size": 16, "daemonize": False, "verbosity": 2,
               "logfile": str(own / "webdis.log"), "pidfile": str(own / "webdis.pid")}
    return ["webdis", write(own / "webdis.json", json.dumps(options))], {}, False


def eventlet(lab, settings, own):
    """The directory of the applications is kept from the modules' path: its dns.py is not the one that is wanted."""
    return ["python3", "-P", str(lab.dir / "apps/eventlet_app.py"), str(settings["port"]), *extra(lab, settings)], {
        "HOME": str(own)}, False


def cohttp(lab, settings, own):
    program = lab.common(settings)["build"] / "cohttp"
    if not program.exists():
        beside = program.with_suffix(".d")
        beside.mkdir()
        source = shutil.copy(lab.dir / "apps/cohttp_app.ml", beside)
        subprocess.run(["ocamlfind", "ocamlopt", "-thread", "-g", "-package", "cohttp-lwt-unix,threads.posix", "-linkpkg", "-o",
                        str(program), str(source)], check=True, capture_output=True, text=True)
    return [str(program), str(settings["port"]), *extra(lab, settings)], {}, False


def ring(lab, settings, own):
    """Compiled beforehand, with all that it needs, as such programs are shipped."""
    classes = lab.common(settings)["build"] / "ring"
    paths = ":".join([str(classes), *RING])
    if not classes.exists():
        classes.mkdir()
        make = f'(binding [*compile-path* "{classes}"] (compile (quote ring-app)))'
        subprocess.run(["java", "-cp", f"{lab.dir}/apps:{paths}", "clojure.main", "-e", make], check=True,
                       capture_output=True, text=True)
    return ["java", "-cp", paths, "ring_app", str(settings["port"]), *extra(lab, settings)], {}, False


def racket(lab, settings, own):
    program = lab.common(settings)["build"] / "racket.d/racket_app.rkt"
    if not program.exists():
        program.parent.mkdir()
        shutil.copy(lab.dir / "apps/racket_app.rkt", program)
        subprocess.run(["raco", "make", str(program)], check=True, capture_output=True, text=True)
    return ["racket", str(program), str(settings["port"]), *extra(lab, settings)], {"HOME": str(own)}, False


def spring(lab, settings, own):
    """Spring tells what it does to the logging of the JDK."""
    where = class_path(lab, settings, "Spring", SPRING)
    logging = write(own / "logging.properties", lab.fill("""handlers = java.util.logging.FileHandler
java.util.logging.FileHandler.level = ALL
java.util.logging.FileHandler.pattern = {{own}}/app.log
java.util.logging.FileHandler.formatter = java.util.logging.SimpleFormatter
org.springframework.level = {{level=INFO}}
""", settings))
    return ["java", f"-Djava.util.logging.config.file={logging}", "-cp", where, "Spring",
            str(settings["port"]), *extra(lab, settings)], {}, False


def wordpress(lab, settings, own):
    """PHP processes with a WordPress of their own, made and filled in the database that was started before."""
    site, packaged = own / "wordpress", Path("/usr/share/wordpress")
    content = site / "wp-content"
    for name in ("mu-plugins", "themes/truth"):
        (content / name).mkdir(parents=True)
    for name in ("wp-admin", "wp-includes"):
        (site / name).symlink_to(packaged / name)
    # Copies, because a file looks for the others beside itself.
    for path in packaged.glob("*.php"):
        shutil.copy(path, site)
    apps = lab.dir / "apps/wordpress"
    shutil.copy(apps / "habits.php", content / "mu-plugins")
    shutil.copy(apps / "install.php", site)
    for name in ("index.php", "style.css"):
        shutil.copy(apps / name, content / "themes/truth")
    constants = {"DB_NAME": "truth", "DB_USER": "truth", "DB_PASSWORD": "", "DB_HOST": "127.0.0.1:{{mariadb.port}}",
                 "DB_CHARSET": "utf8mb4", "DB_COLLATE": "", "TRUTH_HABIT": "{{habit=plain}}", "TRUTH_SERVICE": "{{service=}}"}
    lines = "".join(f"define('{name}', '{value}');\n" for name, value in constants.items())
    write(site / "wp-config.php", lab.fill(f"""<?php
{lines}define('WP_HOME', 'http://' . ($_SERVER['HTTP_HOST'] ?? '127.0.0.1'));
define('WP_SITEURL', WP_HOME);
define('DISABLE_WP_CRON', true);
$table_prefix = 'wp_';
require_once __DIR__ . '/wp-settings.php';
""", settings))
    owned(lab, own)
    flags = [part for name in ("extension=mysqlnd", "extension=mysqli", "zend_extension=opcache") for part in ("-d", name)]
    subprocess.run(["php", "-n", *flags, str(site / "install.php")], check=True, capture_output=True, text=True)
    settings["index"] = str(site / "index.php")
    text = lab.fill((Path(__file__).parent / "configs/php-fpm.conf").read_text(), settings)
    return ["php-fpm", "-F", "-n", "-y", write(own / "php-fpm.conf", text), *flags], {}, True


def passenger(lab, settings, own):
    """Inside Apache, with so many single-threaded processes of Ruby as a case says; started before the first request comes."""
    site = own / "app"
    for name in ("public", "tmp"):
        (site / name).mkdir(parents=True)
    shutil.copy(lab.dir / "apps/passenger.ru", site / "config.ru")
    owned(lab, own)
    settings["more"] = """PassengerRoot /usr/lib/ruby/vendor_ruby/phusion_passenger/locations.ini
PassengerDefaultRuby /usr/bin/ruby
PassengerUserSwitching off
{{as_user}}PassengerDefaultUser {{user}}
PassengerInstanceRegistryDir {{own}}
PassengerDisableSecurityUpdateCheck on
PassengerDisableAnonymousTelemetry on
PassengerMaxPoolSize {{pool=16}}
PassengerMinInstances {{pool=16}}
PassengerPreStart http://127.0.0.1:{{port}}/
{{passenger=}}
SetEnv HABIT {{habit=plain}}
SetEnv DATABASE {{database=}}
SetEnv SERVICE {{service=}}
<VirtualHost 127.0.0.1:{{port}}>
    DocumentRoot {{own}}/app/public
    PassengerAppRoot {{own}}/app
    PassengerAppEnv production
    <Directory {{own}}/app/public>
        Require all granted
    </Directory>
</VirtualHost>"""
    return apache(lab, settings, own, "passenger")


def mochiweb(lab, settings, own):
    """One scheduler for one core; the program is compiled as it starts."""
    return ["elixir", "--no-halt", "--erl", "+S 1:1", str(lab.dir / "apps/mochiweb_app.exs"), str(settings["port"]),
            *extra(lab, settings)], {"HOME": str(own)}, False


def modproxy(lab, settings, own):
    """Before an HTTP server that was started before it, whose connections are kept; `proxy` says what else it does."""
    settings["more"] = """<Proxy "http://127.0.0.1:{{backend.port}}">
    ProxySet max=64 ttl=60
</Proxy>
{{proxy=ProxyPass "/" "http://127.0.0.1:{{backend.port}}/"}}"""
    more = ("proxy", "proxy_http", "proxy_balancer", "lbmethod_byrequests", "slotmem_shm", "rewrite", "auth_basic", "authn_core",
            "authn_file", "authz_user")
    return apache(lab, settings, own, *more)


CGIT = """enable-http-clone=0
noplainemail=1
max-commit-count=50
{{cgit=}}
"""
COMMITS, LINES, FILES = 60, 400, 8
OTHERS = 400


def history():
    """What `git fast-import` makes a repository of: a few files of numbered lines, one of which each commit changes."""
    texts = {f"valves{n}.py": [f"valve_{line} = ({n}, {line}, 'open and shut')" for line in range(LINES)] for n in range(FILES)}
    texts["notes.py"] = ["# What is to be done", "def turn(valve):", "    return not valve"]
    for commit in range(COMMITS):
        name = f"valves{commit % FILES}.py"
        for line in range(0, LINES, 7):
            texts[name][line] = f"valve_{line} = ({commit}, {line}, 'shut in commit {commit}')"
        yield f"commit refs/heads/master\ncommitter Truth <truth@example.org> {1_700_000_000 + commit * 3600} +0000\n"
        message = f"Look at the valves, turn {commit}"
        yield f"data {len(message)}\n{message}\n"
        for changed in texts if commit == 0 else [name]:
            text = "\n".join(texts[changed]) + "\n"
            yield f"M 100644 inline {changed}\ndata {len(text)}\n{text}\n"


def cgit(lab, settings, own):
    """CGI programs of a wrapper with a process for each connection of the load; `valves` is one of many repositories."""
    made = lab.common(settings)["build"] / "cgit"
    if not made.exists():
        quiet = {"check": True, "capture_output": True, "text": True}
        first = made / "valves"
        subprocess.run(["git", "init", "--bare", "--quiet", "--initial-branch=master", str(first)], **quiet)
        subprocess.run(["git", "fast-import", "--quiet"], cwd=first, input="".join(history()), **quiet)
        for n in range(OTHERS):
            shutil.copytree(first, made / f"pumps{n}", ignore=shutil.ignore_patterns("hooks", "*.pack", "*.idx"))
    (own / "cache").mkdir()
    owned(lab, own)
    names = sorted(path.name for path in made.iterdir())
    settings["listed"] = "".join(f"repo.url={name}\nrepo.path={made}/{name}\n" for name in names)
    settings["scanned"] = f"scan-path={made}\n"
    settings["cgitrc"] = write(own / "cgitrc", lab.fill(CGIT + "{{repositories={{listed}}}}", settings))
    return ["fcgiwrap", "-c", "16", "-s", f"tcp:127.0.0.1:{settings['port']}"], {}, False


def pistache(lab, settings, own):
    """It closes the connection of whoever does not ask by a header that it be kept, as the cases' loads do."""
    return compiled(lab, settings, "c++", "pistache_app.cpp", ["-std=c++17", *flags_of("libpistache"), "-pthread"])


def mono(lab, settings, own):
    program = lab.common(settings)["build"] / "Mono.exe"
    if not program.exists():
        subprocess.run(["mcs", "-debug", "-optimize", f"-out:{program}", str(lab.dir / "apps/Mono.cs")], check=True,
                       capture_output=True, text=True)
    return ["mono", "--debug", str(program), str(settings["port"]), *extra(lab, settings)], {"HOME": str(own)}, False


def catalyst(lab, settings, own):
    """Sixteen processes, one for each connection of the load, forked from one that has loaded everything."""
    app = lab.dir / "apps/catalyst"
    return ["starman", "--listen", f"127.0.0.1:{settings['port']}", "--workers=16", "--env=deployment", "--preload-app",
            f"-I{app}/lib", str(app / "app.psgi")], {"HOME": str(own)}, False


def mediawiki(lab, settings, own):
    """PHP processes with a MediaWiki of their own, made and filled in the database that was started before."""
    packaged = "/usr/share/mediawiki"
    (own / "cache").mkdir()
    owned(lab, own)
    env = os.environ | {"MW_INSTALL_PATH": packaged, "MW_CONFIG_FILE": str(own / "LocalSettings.php")}

    def run(script, *args):
        subprocess.run(["php", "-n", *WIKI, script, *args], check=True, capture_output=True, text=True, env=env)

    run(f"{packaged}/maintenance/install.php", "--dbtype=mysql", lab.fill("--dbserver=127.0.0.1:{{mariadb.port}}", settings),
        "--dbname=truth", "--dbuser=truth", "--dbpass=", "--installdbuser=truth", "--installdbpass=", "--pass=open and shut",
        f"--server=http://127.0.0.1:{settings['port']}", "--scriptpath=", f"--confpath={own}", "Truth", "Keeper")
    text = (own / "LocalSettings.php").read_text() + lab.fill("""
$wgMainCacheType = CACHE_ACCEL;
$wgCacheDirectory = "{{own}}/cache";
$wgJobRunRate = 0;
$wgDefaultSkin = "vector";
$wgUsePathInfo = false;
{{wiki=}}
""", settings)
    write(own / "LocalSettings.php", text)
    run(str(lab.dir / "apps/mediawiki/fill.php"))
    run(f"{packaged}/maintenance/updateSpecialPages.php", "--only=Wantedpages")
    owned(lab, own)
    settings["index"] = write(own / "index.php", f"""<?php
define('MW_CONFIG_FILE', '{own}/LocalSettings.php');
require '{packaged}/index.php';
""")
    text = lab.fill((Path(__file__).parent / "configs/php-fpm.conf").read_text(), settings)
    return ["php-fpm", "-F", "-n", "-y", write(own / "php-fpm.conf", text), *WIKI, "-d", "zend_extension=opcache", "-d",
            "display_errors=0"], {}, True


# What a page of a wiki is about.
PARAGRAPH = "The **valve** of hall //{0}// is [[halls:hall{0}|open and shut]], and its pressure is {0} bar.\n\n"
WIKI_PAGES = 2000
DIRECTORIES = ("attic", "cache", "index", "locks", "log", "media", "media_attic", "media_meta", "meta", "pages", "tmp")


def dokuwiki(lab, settings, own):
    """PHP processes with a DokuWiki of their own, which is files; at a Unix socket, as Debian has them."""
    packaged = Path("/usr/share/dokuwiki")
    data = own / "data"
    for name in (*DIRECTORIES, "pages/halls"):
        (data / name).mkdir(parents=True)
    (own / "sessions").mkdir()
    shutil.copytree(packaged / "lib/plugins", own / "plugins")
    shutil.copytree(lab.dir / "apps/dokuwiki/counted", own / "plugins/counted")
    headed = "".join(f"===== Hall {n} =====\n\n{PARAGRAPH.format(n)}" for n in range(12))
    news = "{{rss>http://127.0.0.1:%s/news 5 1d}}" % lab.servers["feed"]["port"] if "feed" in lab.servers else ""
    write(data / "pages/start.txt", f"====== Valves ======\n\n{settings.get('macro', '')}\n\n{news}\n\n{headed}")
    for n in range(WIKI_PAGES):
        write(data / f"pages/halls/hall{n}.txt", PARAGRAPH.format(n))
    rules = "".join(f"halls:hall{n}\t@fitters{n}\t8\n" for n in range(settings.get("rules", 20)))
    write(own / "conf/acl.auth.php", f"# <?php exit()?>\n*\t@ALL\t1\n{rules}")
    write(own / "conf/users.auth.php", "# <?php exit()?>\n")
    write(own / "conf/local.php", lab.fill("""<?php
$conf['savedir'] = '{{own}}/data';
$conf['useacl'] = 1;
$conf['updatecheck'] = 0;
{{wiki=}}
""", settings))
    settings["index"] = write(own / "doku.php", f"""<?php
define('DOKU_CONF', '{own}/conf/');
define('DOKU_PLUGIN', '{own}/plugins/');
require '{packaged}/doku.php';
""")
    owned(lab, own)
    settings["socket_path"] = str(own / "php.sock")
    settings["listen"] = "{{socket_path}}\nlisten.mode = 0666"
    text = lab.fill((Path(__file__).parent / "configs/php-fpm.conf").read_text(), settings)
    return ["php-fpm", "-F", "-n", "-y", write(own / "php-fpm.conf", text), *WIKI, "-d", "zend_extension=opcache", "-d",
            f"session.save_path={own}/sessions", "-d", "session.gc_probability=0", "-d", "display_errors=0"], {}, True


def haml(lab, settings, own):
    """On puma, with a thread for each connection of the load."""
    return ["puma", "-b", f"tcp://127.0.0.1:{settings['port']}", "--threads=16:16", "--environment=production",
            str(lab.dir / "apps/haml_app.ru")], {"HOME": str(own), "RACK_ENV": "production"}, False


def perlfcgi(lab, settings, own):
    """Sixteen processes of Plack's handler for FastCGI, one for each connection of the load, at a Unix socket."""
    settings["socket_path"] = str(own / "app.sock")
    return ["plackup", "--server=FCGI", "--env=deployment", f"--listen={settings['socket_path']}", "--nproc=16",
            str(lab.dir / "apps/perlfcgi_app.psgi")], {"HOME": str(own)}, False


def httpproxy(lab, settings, own):
    """Before an HTTP server that was started before it."""
    return ["node", str(lab.dir / "apps/http_proxy.js"), str(settings["port"]), *extra(lab, settings)], {
        "NODE_PATH": NODE, "HOME": str(own), "NODE_ENV": "production"}, False


def crystal(lab, settings, own):
    program = lab.common(settings)["build"] / "crystal"
    if not program.exists():
        cache = {"CRYSTAL_CACHE_DIR": str(program.with_suffix(".cache"))}
        subprocess.run(["crystal", "build", "--release", "--debug", "-o", str(program), str(lab.dir / "apps/crystal_app.cr")], check=True,
                       capture_output=True, text=True, env=os.environ | cache)
    return [str(program), str(settings["port"]), *extra(lab, settings), str(own / "app.log")], {}, False


# The second of the newest sample, and how many series there are.
SAMPLED_AT, SERIES = 1_700_000_000, 6000


def samples():
    """Counters of the last minutes in the text format of OpenMetrics, and one sample of a day before."""
    yield "# TYPE http_requests counter"
    for n in range(SERIES):
        labels = f'path="/halls/{n % 90}/valves/{n}/state",hall="{n % 90}",method="get"'
        for minute in range(-4, 1):
            yield f"http_requests_total{{{labels}}} {n % 17 * (minute + 5)} {SAMPLED_AT + minute * 60}"
    yield "# TYPE first gauge"
    yield f"first 1 {SAMPLED_AT - 86_400}"
    yield "# EOF"


def prometheus(lab, settings, own):
    """With a history of its own, which is older than what the server would keep if it were not told."""
    made = lab.common(settings)["build"] / "prometheus"
    if not made.exists():
        text = write(lab.common(settings)["build"] / "samples.om", "\n".join(samples()) + "\n")
        subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", text, str(made)], check=True, capture_output=True,
                       text=True)
    shutil.copytree(made, own / "data")
    config = write(own / "prometheus.yml", lab.fill("global: {}\n{{remote=}}\n", settings))
    owned(lab, own)
    return ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={own}/data", "--storage.tsdb.retention.time=50y",
            f"--web.listen-address=127.0.0.1:{settings['port']}", "--log.level=warn", *extra(lab, settings)], {}, False


def jk(lab, settings, own):
    """Before the Tomcat that was started before it."""
    write(own / "workers.properties", lab.fill("""worker.list=app
worker.app.type=ajp13
worker.app.host=127.0.0.1
worker.app.port={{ajp.port}}
{{worker=}}
""", settings))
    settings["more"] = """JkWorkersFile {{own}}/workers.properties
JkShmFile {{own}}/jk.shm
JkLogFile {{own}}/jk.log
JkLogLevel warn
JkMount /* app"""
    return apache(lab, settings, own, "jk")


def crates(lab, settings, name):
    """A program compiled with the crates that Debian packages."""
    made = lab.common(settings)["build"] / name
    if not made.exists():
        source = ["--config", 'source.crates-io.replace-with="debian"', "--config", 'source.debian.directory="/usr/share/cargo/registry"']
        subprocess.run(["cargo", "build", "--release", "--offline", "--quiet", *source, "--target-dir", str(made)],
                       cwd=lab.dir / "apps" / name, check=True, capture_output=True, text=True)
    return str(made / f"release/{name}_app")


def hyper(lab, settings, own):
    return [crates(lab, settings, "hyper"), str(settings["port"]), *extra(lab, settings)], {}, False


def tinyhttp(lab, settings, own):
    """With a store of its own in a file."""
    habit, *service = extra(lab, settings)
    return [crates(lab, settings, "tinyhttp"), str(settings["port"]), habit, str(own / "store.db"), *service], {}, False


def plumber(lab, settings, own):
    """One process of R, with the readings of some valves in a file."""
    readings = "".join(f"{n},hall {n % 12},{n % 170 / 10}\n" for n in range(12_000))
    settings["readings"] = write(own / "readings.csv", f"id,hall,bar\n{readings}")
    return ["Rscript", str(lab.dir / "apps/plumber_app.R"), str(settings["port"]), *extra(lab, settings)], {"HOME": str(own)}, False


def twiggy(lab, settings, own):
    """One event loop; Twiggy closes each connection after its answer."""
    return ["twiggy", "--listen", f"127.0.0.1:{settings['port']}", "--backlog", "128", str(lab.dir / "apps/twiggy_app.psgi")], {
        "OWN": str(own), "HOME": str(own), "PLACK_ENV": "deployment", "PERL_ANYEVENT_PROTOCOLS": "ipv4"}, False


EVENTS = 12


def radicale(lab, settings, own):
    """A calendar of some dates, as the WSGI application that it is, on gunicorn; whoever asks is told by the proxy before it."""
    calendar = own / "collections/collection-root/keeper/valves"
    cache = calendar / ".Radicale.cache/item"
    cache.mkdir(parents=True)
    write(calendar / ".Radicale.props", '{"tag": "VCALENDAR"}')
    for n in range(EVENTS):
        write(calendar / f"valve{n}.ics", f"""BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//truth//valves//EN
BEGIN:VEVENT
UID:valve{n}
DTSTAMP:20231114T100000Z
DTSTART:202311{n % 28 + 1:02}T080000Z
DTEND:202311{n % 28 + 1:02}T090000Z
SUMMARY:Look at valve {n}
DESCRIPTION:Open and shut it\\, and write down its pressure
END:VEVENT
END:VCALENDAR
""".replace("\n", "\r\n"))
    settings["lock"] = write(own / "collections/.Radicale.lock", "")
    config = write(own / "config", f"""[auth]
type = http_x_remote_user
[rights]
type = owner_only
[storage]
filesystem_folder = {own}/collections
[logging]
level = warning
""")
    owned(lab, own)
    cache.chmod(settings.get("cache_mode", 0o755))
    return ["gunicorn", "--bind", f"127.0.0.1:{settings['port']}", "--chdir", str(own), "--log-level=warning", *THREADS,
            "radicale:application"], {"RADICALE_CONFIG": config, "HOME": str(own)}, False


def connect(lab, settings, own):
    return ["node", str(lab.dir / "apps/connect_app.js"), str(settings["port"]), *extra(lab, settings)], {
        "NODE_PATH": NODE, "HOME": str(own), "NODE_ENV": "production"}, False


ZONES, HOSTS = 200, 20
# The package's, without the tables that no case asks.
ZONE_TABLES = f"""
create table domains (id serial primary key, name varchar(255) not null, master varchar(128), last_check int, type text not null,
 notified_serial bigint, account varchar(40), options text, catalog text);
create unique index name_index on domains (name);
create table records (id bigserial primary key, domain_id int references domains (id), name varchar(255), type varchar(10),
 content varchar(65535), ttl int, prio int, disabled bool default 'f', ordername varchar(255), auth bool default 't');
create index rec_name_index on records (name);
create index nametype_index on records (name, type);
create index domain_id on records (domain_id);
create index recordorder on records (domain_id, ordername text_pattern_ops);
create table comments (id serial primary key, domain_id int references domains (id), name varchar(255), type varchar(10),
 modified_at int, account varchar(40), comment varchar(65535));
create index comments_domain_id_idx on comments (domain_id);
create table domainmetadata (id serial primary key, domain_id int references domains (id), kind varchar(32), content text);
create index domainidmetaindex on domainmetadata (domain_id);
create table cryptokeys (id serial primary key, domain_id int references domains (id), flags int not null, active bool,
 published bool default 't', content text);
create index domainidindex on cryptokeys (domain_id);
create table tsigkeys (id serial primary key, name varchar(255), algorithm varchar(50), secret varchar(255));
insert into domains (name, type) select 'hall' || n || '.example', 'NATIVE' from generate_series(1, {ZONES}) n;
insert into records (domain_id, name, type, content, ttl) select id, name, 'SOA', 'ns.example keeper.example 1 7200 900 86400 300',
 300 from domains;
insert into records (domain_id, name, type, content, ttl) select id, 'valve' || n || '.' || name, 'A', '192.0.2.' || n, 300
 from domains, generate_series(1, {HOSTS}) n;
analyze;
"""


def pdns(lab, settings, own):
    """The API of PowerDNS, with its zones in PostgreSQL, which was started before it; each answer closes its connection."""
    where = ["-h", "127.0.0.1", "-p", str(lab.servers["postgres"]["port"]), "-U", "truth", "postgres"]
    subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", *where], input=ZONE_TABLES, check=True, capture_output=True, text=True)
    write(own / "pdns.conf", lab.fill("""launch=gpgsql
gpgsql-host=127.0.0.1
gpgsql-port={{database}}
gpgsql-dbname=postgres
gpgsql-user=truth
gpgsql-dnssec=yes
gpgsql-prepared-statements=no
local-address=127.0.0.2
local-port={{port}}
socket-dir={{own}}
security-poll-suffix=
webserver=yes
webserver-address=127.0.0.1
webserver-port={{port}}
webserver-loglevel=none
loglevel=3
api=yes
api-key={{api_key}}
""", settings))
    return ["pdns_server", f"--config-dir={own}", "--daemon=no", "--guardian=no", "--disable-syslog", "--write-pid=no"], {}, False


def graphite(lab, settings, own):
    """Graphite's web application on gunicorn, with a thread for each connection of the load and metrics of its own."""
    (own / "log").mkdir()
    subprocess.run(["/usr/bin/python3", str(lab.dir / "apps/whisper_files.py"), str(own / "whisper")], check=True,
                   capture_output=True, text=True)
    write(own / "truth_settings.py", lab.fill("""from graphite.settings import *
SECRET_KEY = "open and shut"
STORAGE_DIR = "{{own}}"
WHISPER_DIR = "{{own}}/whisper/"
STANDARD_DIRS = [WHISPER_DIR]
LOG_DIR = "{{own}}/log/"
INDEX_FILE = "{{own}}/index"
DATABASES = {"default": {"NAME": "{{own}}/graphite.db", "ENGINE": "django.db.backends.sqlite3"}}
CARBONLINK_HOSTS = [{{carbon=}}]
# Its pool of threads has one thread where there is one place to look for metrics.
USE_WORKER_POOL = {{pool=False}}
MEMCACHE_HOSTS = [{{cached=}}]
if MEMCACHE_HOSTS:
    CACHES = {"default": {
        "BACKEND": "django.core.cache.backends.memcached.MemcachedCache", "LOCATION": MEMCACHE_HOSTS, "TIMEOUT": 60}}
""", settings))
    owned(lab, own)
    return ["gunicorn", "--bind", f"127.0.0.1:{settings['port']}", "--chdir", str(own), "--log-level=warning", *THREADS,
            "graphite.wsgi:application"], {"DJANGO_SETTINGS_MODULE": "truth_settings", "HOME": str(own)}, False


REVISIONS, LISTED, RULES = 60, 8000, 4000


def revision(number, name, action, text):
    """One revision of a dump, which adds or changes a file."""
    return (f"Revision-number: {number}\nProp-content-length: 10\nContent-length: 10\n\nPROPS-END\n\n"
            f"Node-path: {name}\nNode-kind: file\nNode-action: {action}\nProp-content-length: 10\n"
            f"Text-content-length: {len(text)}\nContent-length: {len(text) + 10}\n\nPROPS-END\n{text}\n\n")


def dump():
    """What `svnadmin load` makes a repository of: a list of valves, of which each revision changes lines all over, and a note."""
    rows = [f"valve {n} of hall {n % 90} is open and shut" for n in range(LISTED)]
    yield "SVN-fs-dump-format-version: 2\n\n"
    for number in range(1, REVISIONS + 1):
        for n in range(number % 50, LISTED, 50):
            rows[n] = f"valve {n} of hall {n % 90} was looked at in revision {number}"
        yield revision(number, "valves.txt", "add" if number == 1 else "change", "\n".join(rows) + "\n")
    yield revision(REVISIONS + 1, "notes.txt", "add", "What is to be done: open and shut.\n")


def svn(lab, settings, own):
    """A repository of Subversion within Apache."""
    made = lab.common(settings)["build"] / "svn"
    if not made.exists():
        quiet = {"check": True, "capture_output": True, "text": True}
        subprocess.run(["svnadmin", "create", str(made)], **quiet)
        subprocess.run(["svnadmin", "load", "--quiet", str(made)], input="".join(dump()), **quiet)
    rules = "".join(f"[/halls/hall{n}]\nkeepers = rw\nfitter{n} = r\n" for n in range(RULES))
    settings["rules"] = write(own / "access", f"[groups]\nkeepers = keeper, warden\n[/]\n* = r\n{rules}")
    settings["more"] = """{{cache=}}
{{before=}}
<Location /svn>
    DAV svn
    SVNPath {{build}}/svn
    {{location=Require all granted}}
</Location>"""
    return apache(lab, settings, own, "dav", "dav_svn", "authz_svn", "dbd", "auth_basic", "authn_core", "authn_dbd", "authz_user")


def simple(lab, settings, own):
    """The server of the Simple framework with 32 threads."""
    where = class_path(lab, settings, "Simple", SIMPLE)
    return ["java", "-Xmx1g", "-cp", where, "Simple", str(settings["port"]), *extra(lab, settings)], {}, False


METERS, MINUTES, BATCH = 200, 300, 20_000


def points(now):
    """What meters showed in the last minutes, in InfluxDB's line protocol, without the newest minute."""
    for minute in range(MINUTES, 0, -1):
        at = (int(now) // 60 - minute) * 60 * 10 ** 9
        for n in range(METERS):
            yield f'pressure,valve={n},hall={n % 12} bar={(n * minute) % 170 / 10},fitter="fitter {n % 90}" {at}'


def ask_influxdb(port, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", path, body)
        answer = connection.getresponse()
        said = answer.read().decode()
        if answer.status >= 300 or '"error"' in said:
            raise OSError(f"influxd: {said}")


def once_it_listens(ask):
    """What `ask` brings of a server that was started a moment ago."""
    end = time.monotonic() + 20
    while True:
        try:
            return ask()
        except ConnectionError:
            if time.monotonic() > end:
                raise
        time.sleep(0.05)


def fill_influxdb(port, own, statement):
    """The database, its points in files of their own, and what else is to be there before the server is asked."""
    once_it_listens(lambda: ask_influxdb(port, "/query?q=create+database+plant"))
    lines = list(points(time.time()))
    for first in range(0, len(lines), BATCH):
        ask_influxdb(port, "/write?db=plant", "\n".join(lines[first:first + BATCH]))
    end = time.monotonic() + 20
    while not any(own.glob("data/**/*.tsm")) and time.monotonic() < end:
        time.sleep(0.1)
    if statement:
        ask_influxdb(port, f"/query?q={quote(statement)}")


@contextlib.contextmanager
def running(own, command, **more):
    """A server that is started to be filled, and ended behind that."""
    with open(own / "filling.log", "wb") as said:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, **more)
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def influxdb(lab, settings, own):
    """A server of its own, which is filled, ended and started again."""
    config = write(own / "influxdb.conf", lab.fill("""reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
dir = "{{own}}/meta"
[data]
dir = "{{own}}/data"
wal-dir = "{{own}}/wal"
wal-fsync-delay = "{{fsync_delay=0s}}"
query-log-enabled = false
cache-snapshot-write-cold-duration = "1s"
[monitor]
store-enabled = false
[http]
bind-address = "127.0.0.1:{{port}}"
log-enabled = false
""", settings))
    command = ["influxd", "-config", config]
    with running(own, command):
        fill_influxdb(settings["port"], own, settings.get("statement", ""))
    owned(lab, own)
    return command, {"HOME": str(own)}, False


def mapproxy(lab, settings, own):
    """A cache of the plan of a plant on gunicorn, with a thread for each connection of the load, before a server of maps."""
    config = write(own / "mapproxy.yaml", lab.fill("""services:
  tms:
  wms:
    srs: ["EPSG:3857", "EPSG:4326", "EPSG:25832"]
    md: {title: plan}
layers:
- {name: plan, title: plan, sources: [{{shown=kept}}]}
caches:
  kept:
    grids: [GLOBAL_WEBMERCATOR]
    sources: [maps]
    meta_size: [1, 1]
    disable_storage: {{unkept=false}}
    cache: {type: file}
sources:
  maps:
    type: wms
    req: {url: "http://127.0.0.1:{{maps.port}}/", layers: plan}
    {{source=}}
globals:
  image: {paletted: false}
  cache:
    base_dir: {{own}}/tiles
    lock_dir: {{own}}/locks
    tile_lock_dir: {{own}}/tile_locks
""", settings))
    write(own / "plan.py", f"from mapproxy.wsgiapp import make_wsgi_app\n\napplication = make_wsgi_app({config!r})\n")
    owned(lab, own)
    return ["gunicorn", "--bind", f"127.0.0.1:{settings['port']}", "--chdir", str(own), "--log-level=warning", *THREADS,
            "plan:application"], {"HOME": str(own)}, False


def fibers(lab, settings, own):
    return ["ruby", str(lab.dir / "apps/async_app.rb"), str(settings["port"]), *extra(lab, settings)], {"HOME": str(own)}, False


def webpy(lab, settings, own):
    return ["python3", str(lab.dir / "apps/webpy_app.py"), str(settings["port"]), *extra(lab, settings)], {"HOME": str(own)}, False


def modlua(lab, settings, own):
    """One function of a script in Lua within Apache, and the Redis that it may ask."""
    settings["more"] = """LuaScope {{scope=thread}}
LuaPackagePath {{dir}}/apps/modlua/?.lua
SetEnv STORE {{store=0}}
LuaMapHandler ^/$ {{dir}}/apps/modlua/valves.lua {{page}}"""
    return apache(lab, settings, own, "lua")


CHANGES, HALLS, SHELVES, DRAWERS = 1200, 60, 40, 15


def hgweb(lab, settings, own):
    """A repository of Mercurial with branches and tags, and directories of other things beside it, on gunicorn."""
    made, env = lab.common(settings)["build"] / "hg", {"HGRCPATH": "", "HOME": str(own), "HGUSER": "fitter"}
    if not made.exists():
        run = {"check": True, "capture_output": True, "text": True, "env": os.environ | env}
        halls = "".join(f" @hall{n} +2 <trunk" for n in range(HALLS))
        subprocess.run(["hg", "init", str(made)], **run)
        subprocess.run(["hg", "-R", str(made), "debugbuilddag", f"+{CHANGES} :trunk{halls}"], **run)
        subprocess.run(["hg", "-R", str(made), "update", "--clean", "trunk"], **run)
        for n in range(0, HALLS, 2):
            subprocess.run(["hg", "-R", str(made), "tag", "-r", str(n), f"release{n}"], **run)
    shutil.copytree(made, own / "projects/valves")
    for shelf in range(SHELVES):
        for drawer in range(DRAWERS):
            (own / f"projects/attic/{shelf}/{drawer}").mkdir(parents=True)
    config = write(own / "hgweb.config", lab.fill(f"""[collections]
{own}/projects = {own}/projects
[web]
{{{{web=}}}}
""", settings))
    write(own / "serve.py", f"from mercurial.hgweb import hgweb\n\napplication = hgweb({config.encode()!r})\n")
    owned(lab, own)
    if settings.get("caches") == "refused":
        # As after a copy made by another user.
        cache = own / "projects/valves/.hg/cache"
        shutil.rmtree(cache)
        cache.mkdir(mode=0o555)
    return ["gunicorn", "--bind", f"127.0.0.1:{settings['port']}", "--chdir", str(own), *THREADS, "--log-level=warning",
            "serve:application"], env, False


IMAGE = "application/vnd.docker."


def image(root):
    """An image of one small layer, in the files of a registry."""
    def blob(content):
        digest = hashlib.sha256(content).hexdigest()
        path = root / f"blobs/sha256/{digest[:2]}/{digest}"
        path.mkdir(parents=True)
        (path / "data").write_bytes(content)
        return digest

    def link(path, digest):
        (root / "repositories/halls/valves" / path).mkdir(parents=True)
        write(root / "repositories/halls/valves" / path / "link", f"sha256:{digest}")

    parts = [("container.image.v1+json", b'{"architecture": "amd64", "os": "linux"}'),
             ("image.rootfs.diff.tar.gzip", b"open and shut\n" * 64)]
    described = [{"mediaType": IMAGE + kind, "size": len(content), "digest": f"sha256:{blob(content)}"} for kind, content in parts]
    for one in described:
        link(f"_layers/sha256/{one['digest'][7:]}", one["digest"][7:])
    manifest = blob(json.dumps({"schemaVersion": 2, "mediaType": IMAGE + "distribution.manifest.v2+json",
                                "config": described[0], "layers": described[1:]}).encode())
    for path in (f"revisions/sha256/{manifest}", "tags/latest/current", f"tags/latest/index/sha256/{manifest}"):
        link(f"_manifests/{path}", manifest)


def registry(lab, settings, own):
    """Docker's registry with an image in files; `more` are sections of its configuration."""
    image(own / "images/docker/registry/v2")
    if "htpasswd" in settings:
        write(own / "htpasswd", settings["htpasswd"] + "\n")
    config = write(own / "config.yml", lab.fill("""version: 0.1
log: {level: {{level=error}}, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: {{own}}/images}
  cache: {blobdescriptor: {{cache=inmemory}}}
http: {addr: "127.0.0.1:{{port}}"}
{{more=}}
""", settings))
    owned(lab, own)
    return ["docker-registry", "serve", config], {"OTEL_TRACES_EXPORTER": "none"}, False


def luahttp(lab, settings, own):
    """One event loop of cqueues."""
    return ["lua5.2", str(lab.dir / "apps/luahttp_app.lua"), str(settings["port"]), *extra(lab, settings)], {}, False


def httpcore(lab, settings, own):
    """The blocking server of HttpCore, a thread for each connection out of a pool that grows."""
    where = class_path(lab, settings, "HttpCore", HTTPCORE)
    return ["java", "-Xmx512m", "-cp", where, "HttpCore", str(settings["port"]), *extra(lab, settings)], {}, False


def nginxperl(lab, settings, own):
    """One page of apps/nginxperl.pm within nginx, or what stands for it in `location`."""
    settings |= {
        "main": f"load_module {NGINX_MODULES}/ngx_http_perl_module.so;\n",
        "http": lab.fill("perl_modules {{dir}}/apps; perl_require nginxperl.pm; {{upstream=}}", settings),
        "server": lab.fill("set $service {{service=0}};", settings),
    }
    settings.setdefault("location", "perl nginxperl::{{page=plain}};")
    text = lab.fill((Path(__file__).parent / "configs/nginx.conf").read_text(), settings)
    return ["nginx", "-p", str(own), "-e", str(own / "start.log"), "-c", write(own / "nginx.conf", text)], {}, True


KEYS, TOGETHER = 8000, 100


def fill_etcd(port):
    """States of valves below /halls/, and one below /latest; the server's gateway takes JSON, with texts in base64."""
    end = time.monotonic() + 20
    puts = [{"requestPut": {"key": code(f"/halls/{n % 12}/valves/{n}"), "value": code(f"open since {n} " + "x" * 1000)}}
            for n in range(KEYS)] + [{"requestPut": {"key": code("/latest"), "value": code("open")}}]
    for first in range(0, len(puts), TOGETHER):
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            with contextlib.closing(connection), contextlib.suppress(ConnectionError):
                connection.request("POST", "/v3/kv/txn", json.dumps({"success": puts[first:first + TOGETHER]}))
                answer = connection.getresponse()
                said = answer.read().decode()
                if answer.status == 200:
                    break
                if time.monotonic() > end:
                    raise OSError(f"etcd: {said}")
            if time.monotonic() > end:
                raise OSError("etcd does not answer")
            time.sleep(0.05)


def code(text):
    return base64.b64encode(text.encode()).decode()


def etcd(lab, settings, own):
    """A cluster of one, which is filled, ended and started again; asked by its gateway for HTTP."""
    where = f"http://127.0.0.1:{settings['port']}"
    command = ["etcd", f"--data-dir={own}/data", "--name=one", f"--listen-client-urls={where}", f"--advertise-client-urls={where}",
               "--listen-peer-urls=http://127.0.0.1:0", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
               "--initial-cluster=one=http://127.0.0.1:2380", "--logger=zap", "--log-outputs=stderr", "--enable-v2=false"]
    with running(own, command):
        fill_etcd(settings["port"])
    owned(lab, own)
    return [*command, *extra(lab, settings)], {"HOME": str(own)}, False


def groovy(lab, settings, own):
    """Compiled by Groovy's compiler to classes, as a build of a project does."""
    classes = lab.common(settings)["build"] / "groovy"
    if not classes.exists():
        subprocess.run(["java", "-cp", ":".join(GROOVY), "org.codehaus.groovy.tools.FileSystemCompiler", "-cp", ":".join(GROOVY), "-d",
                        str(classes), str(lab.dir / "apps/Groovy.groovy")], check=True, capture_output=True, text=True)
    return ["java", "-Xmx256m", "-cp", ":".join([str(classes), *GROOVY]), "Groovy", str(settings["port"]), *extra(lab, settings)], {}, False


FILTERED = 2000


def tinyproxy(lab, settings, own):
    """Before an HTTP server that was started before it; it closes each connection after its answer, without saying so."""
    write(own / "filter", "".join(f"^https?://[^/]*/(ads|banner|track)[0-9]*/{n}/.*[.](gif|js)$\n" for n in range(FILTERED)))
    config = write(own / "tinyproxy.conf", lab.fill("""Port {{port}}
Listen 127.0.0.1
Timeout 600
MaxClients {{clients=100}}
LogFile "{{own}}/tinyproxy.log"
LogLevel {{level=Warning}}
ReverseOnly Yes
ReversePath "/" "http://127.0.0.1:{{origin.port}}/"
{{more=}}
""", settings))
    owned(lab, own)
    return ["tinyproxy", "-d", "-c", config], {}, False


def fphttp(lab, settings, own):
    """A thread and a connection for each request, since the server of Free Pascal 3.2 keeps none."""
    program = lab.common(settings)["build"] / "fphttp_app"
    if not program.exists():
        beside = program.with_suffix(".d")
        beside.mkdir()
        subprocess.run(["fpc", "-O2", "-gw", f"-FU{beside}", f"-o{program}", str(lab.dir / "apps/fphttp_app.pas")], check=True,
                       capture_output=True, text=True)
    return [str(program), str(settings["port"]), *extra(lab, settings)], {"HOME": str(own), "LC_ALL": "C.UTF-8"}, False


def resteasy(lab, settings, own):
    """Resources of JAX-RS within Jetty, with 32 threads."""
    where = class_path(lab, settings, "RestEasy", RESTEASY)
    return ["java", "-Xmx512m", "-cp", where, "RestEasy", str(settings["port"]), *extra(lab, settings)], {}, False


def tcl(lab, settings, own):
    """One event loop, which closes each connection after its answer."""
    return ["tclsh", str(lab.dir / "apps/tcl_app.tcl"), str(settings["port"]), *extra(lab, settings), str(own)], {
        "HOME": str(own)}, False


QUEUES = 500
BROKER = "truth@localhost"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def node(own, port, more):
    """How a node of RabbitMQ is started that listens to its API for HTTP only, with a register of nodes of its own."""
    config = write(own / "rabbitmq.conf", f"""listeners.tcp = none
management.tcp.ip = 127.0.0.1
management.tcp.port = {port}
log.console = false
log.file = rabbit.log
log.file.level = warning
{more}
""")
    plugins = write(own / "plugins", "[rabbitmq_management, rabbitmq_auth_backend_http, rabbitmq_auth_backend_cache].\n")
    return ["/usr/lib/rabbitmq/bin/rabbitmq-server"], {
        "HOME": str(own), "RABBITMQ_CONF_ENV_FILE": "/dev/null", "RABBITMQ_NODENAME": BROKER, "RABBITMQ_CONFIG_FILE": config,
        "RABBITMQ_MNESIA_BASE": str(own / "mnesia"), "RABBITMQ_LOG_BASE": str(own / "log"), "RABBITMQ_ENABLED_PLUGINS_FILE": plugins,
        "RABBITMQ_DIST_PORT": str(free_port()), "ERL_EPMD_PORT": str(free_port()), "ERL_EPMD_ADDRESS": "127.0.0.1"}


def wait_for_queues(port):
    """Until the last queue is there: the API answers before it has all that it is told to make."""
    end = time.monotonic() + 40
    name = base64.b64encode(b"guest:guest").decode()
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", f"/api/queues/%2F/valves{QUEUES - 1}", headers={"Authorization": f"Basic {name}"})
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    raise OSError("rabbitmq does not have its queues")


def fill_rabbitmq(made):
    """A node with many queues, ended."""
    queues = [{"name": f"valves{n}", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}} for n in range(QUEUES)]
    definitions = write(made / "definitions.json", json.dumps({
        "vhosts": [{"name": "/"}], "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
        "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}], "queues": queues}))
    port = free_port()
    command, env = node(made, port, f"load_definitions = {definitions}")
    with open(made / "filling.log", "wb") as said:
        filling = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=os.environ | env,
                                   start_new_session=True)
    try:
        wait_for_queues(port)
    finally:
        os.killpg(filling.pid, signal.SIGTERM)
        filling.wait()


def rabbitmq(lab, settings, own):
    """A node of its own with what was made once a run."""
    made = lab.common(settings)["build"] / "rabbitmq"
    if not made.exists():
        made.mkdir()
        fill_rabbitmq(made)
    shutil.copytree(made / "mnesia", own / "mnesia")
    command, env = node(own, settings["port"], more(lab, settings))
    owned(lab, own)
    return command, env, False


def httprouter(lab, settings, own):
    """With a store of its own."""
    command, env, privileged = go_program("httprouter_app.go")(lab, settings, own)
    return [*command[:3], str(own / "store"), *command[3:]], env, privileged


def pike(lab, settings, own):
    """One event loop, which keeps its data in files of its own."""
    port, habit, *service = str(settings["port"]), *extra(lab, settings)
    return ["pike8.0", str(lab.dir / "apps/pike_app.pike"), port, habit, str(own), *service], {"HOME": str(own)}, False


PEOPLE = """
create table people (username text primary key, password text not null);
insert into people select 'fitter' || n, 'open and shut' from generate_series(1, 5000) n;
insert into people values ('keeper', 'open and shut');
create view users as select username, password, '' as serverkey, '' as salt, 0 as iterationcount, now() as created_at
 from people where pg_sleep(0.005) is not null;
"""


def chat(lab, own, port, settings):
    """How a node of ejabberd is started that listens to its API for HTTP only."""
    config = write(own / "ejabberd.yml", lab.fill(f"""loglevel: {{{{level=warning}}}}
hosts: [localhost]
listen:
  - port: {port}
    ip: 127.0.0.1
    module: ejabberd_http
    request_handlers: {{/api: mod_http_api}}
acl:
  keepers: {{user: [keeper@localhost]}}
  here: {{ip: [127.0.0.0/8]}}
api_permissions:
  keepers:
    who: [{{access: {{allow: {{acl: keepers}}}}}}, {{access: {{allow: {{acl: here}}}}}}]
    what: "*"
modules:
  mod_admin_extra: {{}}
  mod_last: {{}}
  mod_roster: {{}}
{{{{more=auth_password_format: scram}}}}
""", settings))
    return ["erl", "-noshell", "-noinput", "-mnesia", "dir", f'"{own}/mnesia"', "-s", "ejabberd"], {
        "HOME": str(own), "ERL_LIBS": LIBRARIES, "EJABBERD_CONFIG_PATH": config,
        "EJABBERD_LOG_PATH": str(own / "ejabberd.log"), "EJABBERD_PID_PATH": str(own / "pid")}


def register_keeper(port):
    end = time.monotonic() + 30
    name = quote("open and shut")
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", f"/api/register?user=keeper&host=localhost&password={name}")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    raise OSError("ejabberd does not register its keeper")


def ejabberd(lab, settings, own):
    """A node of its own with one registered user, which is made once a run; or with users in PostgreSQL, started before it."""
    made = lab.common(settings)["build"] / "ejabberd"
    if not made.exists():
        made.mkdir()
        port = free_port()
        command, env = chat(lab, made, port, {"kind": settings["kind"]})
        with running(made, command, env=os.environ | env):
            register_keeper(port)
    shutil.copytree(made / "mnesia", own / "mnesia")
    if "postgres" in lab.servers:
        where = ["-h", "127.0.0.1", "-p", str(lab.servers["postgres"]["port"]), "-U", "truth", "postgres"]
        subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", *where], input=PEOPLE, check=True, capture_output=True, text=True)
    command, env = chat(lab, own, settings["port"], settings)
    owned(lab, own)
    return command, env, False


VISITS = """create table visits (at DateTime, page String, hall UInt16, ms UInt32) engine = MergeTree
partition by {{partition=toYYYYMM(at)}} order by at"""
VISITED = """insert into visits
select toDateTime(1700000000 + number * {{seconds=60}}), concat('/halls/', toString(number % 90), '/valves/', toString(number)),
 number % 90, number % 1000 from system.numbers limit {{visits=20000}}"""


def tell_clickhouse(port, statements):
    end = time.monotonic() + 30
    for statement in statements:
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            with contextlib.closing(connection), contextlib.suppress(ConnectionError):
                connection.request("POST", "/", statement)
                answer = connection.getresponse()
                said = answer.read().decode()
                if answer.status != 200:
                    raise OSError(f"clickhouse: {said}")
                break
            if time.monotonic() > end:
                raise OSError("clickhouse does not answer")
            time.sleep(0.05)


def clickhouse(lab, settings, own):
    """A server of its own, which is filled, ended and started again; whatever its settings of queries, they are in `profile`."""
    (own / "data").mkdir()
    owned(lab, own)
    config = write(own / "config.xml", lab.fill("""<yandex>
<logger><level>{{level=warning}}</level><log>{{own}}/server.log</log><errorlog>{{own}}/errors.log</errorlog></logger>
<http_port>{{port}}</http_port><listen_host>127.0.0.1</listen_host><keep_alive_timeout>60</keep_alive_timeout>
<path>{{own}}/data/</path><tmp_path>{{own}}/data/tmp/</tmp_path><mark_cache_size>67108864</mark_cache_size>
<users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
</yandex>
""", settings))
    write(own / "users.xml", lab.fill("""<yandex>
<profiles><default>{{profile=}}</default></profiles><quotas><default/></quotas>
<users><default><password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
</yandex>
""", settings))
    command = ["clickhouse-server", f"--config-file={config}"]
    with running(own, command, cwd=own):
        tell_clickhouse(settings["port"], [lab.fill(one, settings) for one in (VISITS, VISITED, *settings.get("statements", []))])
    owned(lab, own)
    return command, {"HOME": str(own)}, False


def kamailio(lab, settings, own):
    """A SIP server's door for HTTP, with a process for each connection of the load; `route` is what it does for a request."""
    config = write(own / "kamailio.cfg", lab.fill("""#!KAMAILIO
debug={{debug=0}}
log_stderror=yes
children=1
tcp_children={{children=16}}
listen=tcp:127.0.0.1:{{port}}
tcp_accept_no_cl=yes
http_reply_parse=yes
tcp_connection_lifetime=3600
auto_aliases=no
dns=no
rev_dns=no
loadmodule "sl.so"
loadmodule "pv.so"
loadmodule "cfgutils.so"
loadmodule "htable.so"
loadmodule "http_client.so"
loadmodule "xhttp.so"
{{modules=}}
modparam("cfgutils", "lock_set_size", 4)
modparam("htable", "htable", "rates=>size=8")
request_route { exit; }
event_route[htable:mod-init] { $sht(rates=>de) = 7; }
event_route[xhttp:request] {
{{route=}}
    xhttp_reply("200", "OK", "text/plain", "$sht(rates=>de) $var(said)");
}
""", settings))
    owned(lab, own)
    return ["kamailio", "-DD", "-E", "-f", config, "-w", str(own), "-Y", str(own), "-P", str(own / "pid"), "-m", "64",
            "-M", "8"], {"HOME": str(own)}, False


def qthttp(lab, settings, own):
    """One event loop, with its files where it was started; what its library says that it requires is not all needed."""
    libraries = [flag for name in ("Qt6Concurrent", "Qt6Sql", "Qt6Network") for flag in flags_of(name)]
    command, env, privileged = compiled(lab, settings, "c++", "qthttp_app.cpp", ["-std=c++17", "-fPIC", *libraries, "-lQt6HttpServer"])
    return command, env | {"HOME": str(own)}, privileged


def picture(width, height):
    """A PNG with something of a photograph: slopes of colour, and grain."""
    grain = random.Random(7).randbytes(4096)
    rows = (b"\0" + bytes(part for x in range(width) for part in (
        (x * 200 // width + (grain[(x * 31 + y * 17) % 4096] >> 4)) % 256, y * 200 // height, (x + y) // 8 % 256))
        for y in range(height))

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(b"".join(rows), 6)) + chunk(b"IEND", b""))


PICTURES = {"originals": (1200, 900), "previews": (400, 300)}


def imagefilter(lab, settings, own):
    """Small pictures that nginx cuts itself, in a server behind its own cache; `cut` and `front` are what else these two do."""
    for name, size in PICTURES.items():
        made = lab.common(settings)["build"] / f"{name}.png"
        if not made.exists():
            made.write_bytes(picture(*size))
        (own / "pictures" / name).mkdir(parents=True)
        shutil.copy(made, own / "pictures" / name / "valve.png")
    settings |= {
        "main": f"load_module {NGINX_MODULES}/ngx_http_image_filter_module.so;\n",
        "http": """proxy_cache_path {{own}}/kept keys_zone=kept:1m;
    {{upstream=}}
    server {
        listen unix:{{own}}/cut.sock;
        root {{own}}/pictures;
        location / { image_filter resize 160 120; image_filter_buffer 16m; {{cut=}} }
    }""",
        "location": "proxy_pass http://unix:{{own}}/cut.sock; proxy_cache {{cache=kept}}; proxy_cache_valid 200 1h; {{front=}}",
    }
    text = lab.fill((Path(__file__).parent / "configs/nginx.conf").read_text(), settings)
    owned(lab, own)
    return ["nginx", "-p", str(own), "-e", str(own / "start.log"), "-c", write(own / "nginx.conf", text)], {}, True


MESSAGES = 50_000


def chat_server(lab, own, port, settings):
    """How Prosody is started with its API for HTTP only, and its archive of messages where the case says."""
    config = write(own / "prosody.cfg.lua", lab.fill(f"""daemonize = false
pidfile = "{own}/pid"
data_path = "{own}/data"
plugin_paths = {{ "{{{{dir}}}}/apps/prosody" }}
modules_enabled = {{ "http", "valves" }}
modules_disabled = {{ "s2s", "c2s", "offline" }}
network_backend = "epoll"
http_interfaces = {{ "127.0.0.1" }}
http_ports = {{ {port} }}
https_ports = {{ }}
http_default_host = "localhost"
log = {{ warn = "{own}/prosody.log" }}
authentication = "internal_hashed"
storage = {{ messages = "{{{{storage=sql}}}}" }}
sql = {{ driver = "SQLite3", database = "{own}/messages.sqlite" }}
storage_archive_item_limit = 100000
{{{{more=}}}}
VirtualHost "localhost"
""", settings))
    return ["prosody", "-F", "--config", config], {"HOME": str(own)}


def wait_for_messages(port):
    """The port is open before the module that makes the tables is loaded."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/valves/last")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.05)
    raise OSError("prosody does not show its messages")


def fill_prosody(lab, made, kind):
    """Its tables are of its own making; messages are put in behind that."""
    port = free_port()
    command, env = chat_server(lab, made, port, {"kind": kind})
    (made / "data").mkdir()
    owned(lab, made)
    with running(made, ["setpriv", f"--reuid={made.stat().st_uid}", f"--regid={made.stat().st_gid}", "--clear-groups", *command]
                 if os.geteuid() == 0 else command, cwd=made, env=os.environ | env):
        wait_for_messages(port)
    rows = (("localhost", "keeper", "messages", str(n), 1_700_000_000 + n * 60, "fitter7@localhost", "xml",
             f"<message type='chat'><body>valve {n} is open, and is to be shut by the evening</body></message>")
            for n in range(MESSAGES))
    with contextlib.closing(sqlite3.connect(made / "messages.sqlite")) as store, store:
        store.executemany('insert into prosodyarchive (host, user, store, key, "when", "with", type, value)'
                          " values (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def prosody(lab, settings, own):
    """A server of its own with an archive of messages, which is made once a run."""
    made = lab.common(settings)["build"] / "prosody"
    if not made.exists():
        made.mkdir()
        if lab.common(settings)["user"]:
            shutil.chown(made, lab.common(settings)["user"], lab.common(settings)["group"])
        fill_prosody(lab, made, settings["kind"])
    shutil.copy(made / "messages.sqlite", own)
    (own / "data").mkdir()
    command, env = chat_server(lab, own, settings["port"], settings)
    owned(lab, own)
    return command, env, False


def pecan(lab, settings, own):
    """In front of a broker, and of a worker that takes what it asks for from there."""
    command, _, privileged = threaded("pecan_app")(lab, settings, own)
    return command, {"HOME": str(own), "BROKER": lab.fill("{{redis.port}}", settings)}, privileged


READERS = 20_000
OPEN = "{SHA}" + base64.b64encode(hashlib.sha1(b"open").digest()).decode()


def modauth(lab, settings, own):
    """A page for users with a name and a password; who they are is in files, whether they are fitters in a directory."""
    lines = [f"reader{n}:{OPEN}" for n in range(READERS)] + [f"user7:{OPEN}"]
    write(own / "users", "\n".join(lines) + "\n")
    pairs = write(own / "pairs", "\n".join(lines).replace(":", " ") + "\n")
    subprocess.run(["httxt2dbm", "-i", pairs, "-o", str(own / "users-dbm"), "-f", "SDBM"], check=True, capture_output=True,
                   text=True)
    write(own / "few", f"user7:{OPEN}\n")
    owned(lab, own)
    settings["more"] = """SessionCryptoDriver openssl
{{caches=}}
<Location "/">
    AuthType Basic
    AuthName valves
    AuthBasicProvider {{provider=file}}
    AuthUserFile {{own}}/{{users=few}}
    AuthDBMType SDBM
    AuthDBMUserFile {{own}}/users-dbm
    Session On
    SessionMaxAge 1800
    SessionCookieName session path=/
    {{session=}}
    {{require=Require valid-user}}
</Location>"""
    return apache(lab, settings, own, "authn_core", "authn_file", "authn_dbm", "auth_basic", "authz_user", "ldap", "authnz_ldap",
                  "session", "session_cookie", "session_crypto")


SHELF = 2000


def rclone(lab, settings, own):
    """It serves files of a directory, or of another server, by HTTP; its listings are kept as `args` say."""
    shelf = own / "shelf"
    shelf.mkdir()
    for n in range(SHELF):
        write(shelf / f"valve{n}.txt", f"valve {n} is open\n" * 50)
    write(shelf / "drawing.bin", "valve" * 13_000)
    owned(lab, own)
    config = write(own / "rclone.conf", "")
    return ["rclone", "serve", "http", lab.fill("{{remote={{own}}/shelf}}", settings), "--config", config, "--read-only",
            "--addr", f"127.0.0.1:{settings['port']}", "--cache-dir", str(own / "cache"), *extra(lab, settings)], {
        "HOME": str(own)}, False


def guile(lab, settings, own):
    """One thread, which reads, answers and writes one request at a time."""
    write(own / "page.scm", (lab.dir / "apps/guile_page.scm").read_text())
    owned(lab, own)
    program = str(lab.dir / "apps/guile_app.scm")
    return ["guile", "--no-auto-compile", "-s", program, str(settings["port"]), *extra(lab, settings)], {"HOME": str(own)}, False


HYDRANTS, VALVES = 60_000, 400


def shapes(path, count):
    """A shapefile of points strewn over the world, with their numbers and an index; and the same in GeoJSON."""
    strewn = random.Random(7)
    points = [(strewn.uniform(-180, 180), strewn.uniform(-90, 90)) for _ in range(count)]
    sizes = {".shp": 100 + 28 * count, ".shx": 100 + 8 * count}
    for suffix, size in sizes.items():
        head = struct.pack(">7i", 9994, 0, 0, 0, 0, 0, size // 2) + struct.pack("<2i8d", 1000, 1, -180, -90, 180, 90, 0, 0, 0, 0)
        rows = (struct.pack(">2i", n + 1, 10) + struct.pack("<i2d", 1, *point) if suffix == ".shp"
                else struct.pack(">2i", 50 + 14 * n, 10) for n, point in enumerate(points))
        path.with_suffix(suffix).write_bytes(head + b"".join(rows))
    head = struct.pack("<4BI2H20x", 3, 124, 1, 1, count, 65, 9) + struct.pack("<11sc4x2B14x", b"NUMBER", b"N", 8, 0) + b"\r"
    path.with_suffix(".dbf").write_bytes(head + b"".join(b" %8d" % n for n in range(count)))
    features = [{"type": "Feature", "properties": {"NUMBER": n}, "geometry": {"type": "Point", "coordinates": point}}
                for n, point in enumerate(points)]
    write(path.with_suffix(".geojson"), json.dumps({"type": "FeatureCollection", "features": features}))
    subprocess.run(["shptree", str(path.with_suffix(".shp"))], check=True, capture_output=True, text=True)


def layer(where, name):
    return f"""  LAYER
    NAME "{name}"
    TYPE POINT
    STATUS OFF
    {where}
    CLASS
      NAME "{name}"
      STYLE
        SYMBOL "dot"
        COLOR 30 90 160
        SIZE 5
      END
    END
  END
"""


def mapserver(lab, settings, own):
    """One process of MapServer for FastCGI, with `layers` layers in its map, of which a picture shows the first."""
    made = lab.common(settings)["build"] / "hydrants"
    if not made.exists():
        made.mkdir()
        shapes(made / "hydrants", HYDRANTS)
        shapes(made / "valves", VALVES)
    shutil.copytree(made, own / "shapes")
    if not settings.get("indexed", True):
        (own / "shapes/hydrants.qix").unlink()
    data = lab.fill("""{{data=DATA "{{own}}/shapes/hydrants"}}""", settings)
    layers = "".join(layer(data, "hydrants" if n == 0 else f"hall{n}") for n in range(settings.get("layers", 1)))
    write(own / "valves.map", lab.fill(f"""MAP
  NAME "valves"
  EXTENT -180 -90 180 90
  SIZE 256 256
  IMAGETYPE "{{{{picture=png}}}}"
  IMAGECOLOR 240 240 240
  CONFIG "MS_ERRORFILE" "{own}/map.log"
  {{{{map=}}}}
  SYMBOL
    NAME "dot"
    TYPE ELLIPSE
    POINTS 1 1 END
    FILLED TRUE
  END
{layers}END
""", settings))
    config = write(own / "mapserver.conf", f"""CONFIG
  ENV
    MS_MAP_PATTERN "^{own}/"
  END
  MAPS
    VALVES "{own}/valves.map"
  END
END
""")
    owned(lab, own)
    return ["spawn-fcgi", "-n", "-a", "127.0.0.1", "-p", str(settings["port"]), "-b", "128", "--", "/usr/lib/cgi-bin/mapserv"], {
        "HOME": str(own), "MAPSERVER_CONFIG_FILE": config}, False


def orders(lab, settings, own):
    """An embedded Tomcat with its directory for what it makes."""
    flags = [lab.fill(flag, settings) for flag in settings.get("flags", [])]
    where = class_path(lab, settings, "Orders", C3P0)
    return ["java", *flags, "-cp", where, "Orders", str(settings["port"]), str(own), *extra(lab, settings)], {}, False


def modcache(lab, settings, own):
    """Before a web server that was started before it; what that answers is kept on the disk."""
    (own / "kept").mkdir()
    owned(lab, own)
    settings["more"] = """CacheRoot {{own}}/kept
CacheEnable disk "/"
CacheQuickHandler {{quick=on}}
CacheIgnoreNoLastMod On
CacheDefaultExpire 3600
CacheLock on
CacheLockPath {{own}}/locks
{{cache=}}
ProxyPass "/" "http://127.0.0.1:{{backend.port}}/"
<Location "/">
    {{filters=}}
</Location>"""
    return apache(lab, settings, own, "proxy", "proxy_http", "cache", "cache_disk", "filter", "deflate", "ext_filter", "substitute")


def slim(lab, settings, own):
    """PHP processes with a shop on Slim, what it keeps being its own."""
    for name in ("sessions", "twig"):
        (own / name).mkdir()
    owned(lab, own)
    settings |= {"index": str(lab.dir / "apps/slim/index.php"), "own": str(own)}
    text = lab.fill((Path(__file__).parent / "configs/php-fpm.conf").read_text(), settings)
    sessions = lab.fill("{{sessions=}}", settings)
    kept = [("session.save_handler", "redis"), ("session.save_path", sessions), ("redis.session.locking_enabled", 1),
            ("redis.session.lock_retries", 500)] if sessions else [("session.save_path", own / "sessions")]
    values = [("apc.shm_size", settings.get("memory", "32M")), ("display_errors", 0), ("session.gc_probability", 0), *kept]
    return ["php-fpm", "-F", "-n", "-y", write(own / "php-fpm.conf", text), *SHOP,
            *(part for name, value in values for part in ("-d", f"{name}={value}"))], {}, True


def nodemysql(lab, settings, own):
    return ["node", str(lab.dir / "apps/mysql_app.js"), str(settings["port"]), *extra(lab, settings)], {
        "NODE_PATH": NODE, "HOME": str(own), "NODE_ENV": "production"}, False


SESSIONS = 600


def flaskext(lab, settings, own):
    """With the sessions in files that earlier visitors left."""
    (own / "sessions").mkdir()
    ends = int(time.time()) + 30 * 86400
    for n in range(SESSIONS):
        name = hashlib.md5(f"session:{n}".encode()).hexdigest()
        (own / "sessions" / name).write_bytes(struct.pack("I", ends) + pickle.dumps({"seen": "hall 7"}))
    owned(lab, own)
    command, _, privileged = threaded("flaskext_app")(lab, settings, own)
    return command, {"HOME": str(own)}, privileged


# How many valves a document has, in how many halls; and how many prices a list has.
STOCKS = {"stock": (400, 40), "hall": (40, 1), "month": (300, 30), "year": (12_000, 60)}
PRICES = {"prices": 6000, "prices-of-hall": 40}


def xslt(lab, settings, own):
    """Documents in XML of which nginx makes pages itself, by a stylesheet of apps/xslt."""
    stock = own / "stock"
    for name, (count, halls) in STOCKS.items():
        rows = "".join(f'<valve id="{n}" hall="{n * 7 % halls}">valve {n}</valve>\n' for n in range(count))
        write(stock / f"{name}.xml", f'<?xml version="1.0"?>\n<stock>\n{rows}</stock>\n')
    for name, count in PRICES.items():
        rows = "".join(f'<price valve="{n}">{n % 90}.50</price>\n' for n in range(count))
        write(stock / f"{name}.xml", f'<?xml version="1.0"?>\n<prices>\n{rows}</prices>\n')
    owned(lab, own)
    settings |= {
        "main": f"load_module {NGINX_MODULES}/ngx_http_xslt_filter_module.so;\n",
        "server": "types { text/xml xml; }",
        "location": "root {{own}}/stock; xslt_stylesheet {{dir}}/apps/xslt/{{sheet=halls}}.xsl; {{more=}}",
    }
    text = lab.fill((Path(__file__).parent / "configs/nginx.conf").read_text(), settings)
    return ["nginx", "-p", str(own), "-e", str(own / "start.log"), "-c", write(own / "nginx.conf", text)], {}, True


def lucene(lab, settings, own):
    """It writes its index first, into its own directory."""
    where = class_path(lab, settings, "Catalogue", LUCENE)
    flags = ["-Dsun.net.httpserver.nodelay=true", *settings.get("flags", [])]
    return ["java", *flags, "-cp", where, "Catalogue", str(settings["port"]), str(own / "index"), *extra(lab, settings)], {}, False


def fill_victoria(port):
    """What 2,000 meters showed in each of the last five hours' minutes."""
    times = [(int(time.time()) // 60 - minute) * 60_000 for minute in range(MINUTES, 0, -1)]
    lines = "\n".join(json.dumps({
        "metric": {"__name__": "pressure_bar", "valve": str(n), "hall": str(n % 12)}, "timestamps": times,
        "values": [n * minute % 170 / 10 for minute in range(MINUTES)]}) for n in range(2000))

    def bring():
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request("POST", "/api/v1/import", lines)
            status = connection.getresponse().status
        if status != 204:
            raise ConnectionError(f"the import was answered with {status}")

    once_it_listens(bring)


def victoria(lab, settings, own):
    """A server of its own, which is filled, ended and started again."""
    command = ["victoria-metrics", f"-storageDataPath={own}/data", f"-httpListenAddr=127.0.0.1:{settings['port']}",
               "-loggerLevel=WARN"]
    with running(own, command):
        fill_victoria(settings["port"])
    scrape = lab.fill("{{scrape=}}", settings)
    flags = [f"-promscrape.config={write(own / 'scrape.yml', scrape)}"] if scrape else []
    owned(lab, own)
    return [*command, *flags, *extra(lab, settings)], {"HOME": str(own)}, False


LISTED = 200_000


def dnsdist(lab, settings, own):
    """It answers questions for names by HTTP, and keeps what the server of names that was started before it says."""
    write(own / "names", "".join(f"tracker{n}.example.\n" for n in range(LISTED)))
    config = write(own / "dnsdist.conf", lab.fill(f"""setLocal("127.0.0.1:{free_port()}")
setSecurityPollSuffix("")
newServer({{address="127.0.0.1:{{{{names.port}}}}", name="names"}}):setUp()
addDOHLocal("127.0.0.1:{{{{port}}}}", nil, nil, "/dns-query")
getPool(""):setCache(newPacketCache(10000, {{ {{{{cache=}}}} }}))
{{{{more=}}}}
""", settings))
    owned(lab, own)
    return ["dnsdist", "--supervised", "--disable-syslog", "-C", config], {"HOME": str(own)}, False


MACHINES = 150


def soap(lab, settings, own):
    """In front of a service that was started before it; its home has the names and passwords of many machines."""
    write(own / ".netrc", "".join(f"machine valve{n}.example login fitter password open{n}\n" for n in range(MACHINES)))
    (own / ".netrc").chmod(0o600)
    owned(lab, own)
    command, _, privileged = threaded("soap_app")(lab, settings, own)
    return command, {"HOME": str(own)}, privileged


def stunnel(lab, settings, own):
    """In front of the server that was started before it; as a client of one that speaks TLS where `side` says so."""
    settings |= {"pem": lab.key(settings.get("key", "ec")), "backend": list(lab.servers.values())[-2]["port"]}
    text = lab.fill("""foreground = quiet
syslog = no
pid =
debug = {{debug=5}}
output = {{own}}/stunnel.log
[plant]
accept = 127.0.0.1:{{port}}
{{peers=connect = 127.0.0.1:{{backend}}}}
{{side=cert = {{pem}}}}
{{more=}}
""", settings)
    return ["stunnel4", write(own / "stunnel.conf", text)], {}, False


# A logbook has so many entries unless a case says otherwise, and a job brings all of them or those that changed.
LOGGED, CHANGED = 10_000, 10
LOGBOOK = """table_create Entries TABLE_HASH_KEY ShortText
column_create Entries hall COLUMN_SCALAR UInt32
column_create Entries time COLUMN_SCALAR Time
column_create Entries title COLUMN_SCALAR ShortText
column_create Entries text COLUMN_SCALAR Text
table_create Terms TABLE_PAT_KEY ShortText --default_tokenizer TokenBigram --normalizer NormalizerAuto
{{index=column_create Terms entries_text COLUMN_INDEX|WITH_POSITION Entries text}}
load --table Entries
"""


def logbook(count):
    """Entries of some fifty words; one of two hundred says that something leaks."""
    source = random.Random(7)
    syllables = ["val", "ve", "shut", "pre", "ss", "ure", "hall", "o", "pen", "me", "ter"]
    words = ["".join(source.choices(syllables, k=4)) for _ in range(3000)]
    return json.dumps([{
        "_key": f"entry {n}", "hall": n % 12, "time": 1_700_000_000 + n * 600, "title": f"valve {n % 400}",
        "text": " ".join(source.choices(words, k=50)) + (" leaking" if n % 200 == 0 else "")} for n in range(count)])


def groonga(lab, settings, own):
    """A search server with a logbook, filled by its own program; one thread for one core."""
    book = logbook(settings.get("entries", LOGGED))
    write(own / "all.json", book)
    write(own / "changed.json", logbook(CHANGED))
    (own / "db").mkdir()
    log = [f"--log-path={own}/groonga.log"]
    subprocess.run(["groonga", *log, "-n", str(own / "db/plant")], input=f"{lab.fill(LOGBOOK, settings)}{book}\n", check=True,
                   capture_output=True, text=True)
    owned(lab, own)
    return ["groonga", *log, "--protocol=http", "--bind-address=127.0.0.1", "-p", str(settings["port"]), "-t", "1",
            *extra(lab, settings), "-s", str(own / "db/plant")], {"HOME": str(own)}, False


def symfony(lab, settings, own):
    """PHP processes with a plant's pages on Symfony, whose container is its own."""
    settings |= {"index": str(lab.dir / "apps/symfony/index.php"), "own": str(own)}
    text = lab.fill((Path(__file__).parent / "configs/php-fpm.conf").read_text(), settings)
    return ["php-fpm", "-F", "-n", "-y", write(own / "php-fpm.conf", text), *SYMFONY, "-d", "display_errors=0"], {}, True


def scala(lab, settings, own):
    """Compiled once for all cases."""
    classes = lab.common(settings)["build"] / "scala"
    if not classes.exists():
        classes.mkdir()
        subprocess.run(["scalac", "-cp", ":".join(SCALA), "-d", str(classes), str(lab.dir / "apps/Plant.scala")], check=True,
                       capture_output=True, text=True)
    where = ":".join([str(classes), *SCALA])
    return ["java", "-Xmx256m", "-cp", where, "Plant", str(settings["port"]), *extra(lab, settings)], {}, False


def laravel(lab, settings, own):
    """PHP processes with a plant's pages on Laravel, what it keeps being its own; its views are `views_of` seconds old."""
    for name in ("data", "views"):
        (own / name).mkdir()
    place = lab.dir / "apps/laravel"
    changed = time.time() - settings.get("views_of", 86400)
    for path in (place / "views").iterdir():
        os.utime(path, (changed, changed))
    owned(lab, own)
    settings |= {"index": str(place / "index.php"), "own": str(own)}
    text = lab.fill((Path(__file__).parent / "configs/php-fpm.conf").read_text(), settings)
    return ["php-fpm", "-F", "-n", "-y", write(own / "php-fpm.conf", text), *LARAVEL, "-d", "display_errors=0", "-d",
            "include_path=/usr/share/php"], {}, True


LISTED_PATHS = 1500


def privoxy(lab, settings, own):
    """Before a web server that was started before it, with the package's actions and filters, and those of a case."""
    etc = own / "etc"
    shutil.copytree("/etc/privoxy", etc)
    words = [f"{word}{n}" for n in range(LISTED_PATHS // 3) for word in ("ad", "banner", "track")]
    write(etc / "list.action", "{+block{A list of advertisements.}}\n" + "".join(
        f"/.*[-_./](www-)?{word}[-_./].*[.](gif|js|png)\n" for word in words))
    write(etc / "user.action", lab.fill("{{actions=}}\n", settings))
    text = replaced(
        (etc / "config").read_text(), (r"^listen-address  127.*", f"listen-address 127.0.0.1:{settings['port']}"),
        (r"^listen-address  \[.*", ""), (r"^confdir .*", f"confdir {etc}"), (r"^logdir .*", f"logdir {own}"),
        (r"^accept-intercepted-requests 0", "accept-intercepted-requests 1"))
    text += f"\nforward / 127.0.0.1:{list(lab.servers.values())[-2]['port']}\n{more(lab, settings)}\n"
    config = write(etc / "config", text)
    owned(lab, own)
    return ["privoxy", "--no-daemon", config], {}, False


PUSHED = ("started_seconds", "ended_seconds", "bytes", "files", "errors", "retries")


def fill_pushgateway(port, groups):
    """What jobs said on so many machines, each in a group of its own."""
    def push():
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            for n in range(groups):
                lines = "".join(f"# TYPE backup_{part} gauge\nbackup_{part} {n * 7}\n" for part in PUSHED)
                connection.request("PUT", f"/metrics/job/backup/instance/host{n}", lines)
                connection.getresponse().read()

    once_it_listens(push)


def pushgateway(lab, settings, own):
    """A server of its own, which is filled with what `groups` machines pushed, ended and started again."""
    command = ["prometheus-pushgateway", f"--web.listen-address=127.0.0.1:{settings['port']}", f"--persistence.file={own}/kept",
               "--log.level=warn"]
    with running(own, [*command, "--push.disable-consistency-check"]):
        fill_pushgateway(settings["port"], settings.get("groups", 20))
    owned(lab, own)
    return [*command, *extra(lab, settings)], {"HOME": str(own)}, False


def kotlin(lab, settings, own):
    """Compiled once for all cases."""
    classes = lab.common(settings)["build"] / "kotlin"
    if not classes.exists():
        subprocess.run(["kotlinc", str(lab.dir / "apps/Boiler.kt"), "-no-stdlib", "-cp", ":".join(KOTLIN), "-d", str(classes)],
                       check=True, capture_output=True, text=True)
    where = ":".join([str(classes), *KOTLIN])
    return ["java", "-Xmx256m", "-cp", where, "BoilerKt", str(settings["port"]), *extra(lab, settings)], {}, False


def haskell(lab, settings, source):
    """A program of Haskell in apps/, compiled once for all cases."""
    program = lab.common(settings)["build"] / source
    if not program.exists():
        subprocess.run(["ghc", "-v0", "-O2", "-threaded", "-rtsopts", "-outputdir", str(program.with_suffix(".d")), "-o", str(program),
                        str(lab.dir / f"apps/{source}.hs")], check=True, capture_output=True, text=True)
    return str(program)


def scotty(lab, settings, own):
    """In front of the redis that was started before it."""
    return [haskell(lab, settings, "Scotty"), str(settings["port"]), lab.fill("{{redis.port}}", settings), *extra(lab, settings)], {
        "LC_ALL": "C.UTF-8"}, False


def e2guardian(lab, settings, own):
    """With the package's stories and lists, and those of a case, before a web server that was started before it."""
    etc = own / "etc"
    shutil.copytree("/etc/e2guardian", etc)
    for path in etc.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"/etc/e2guardian", str(etc).encode()))
    text = replaced(
        (etc / "e2guardian.conf").read_text(), (r"^filterip =.*", "filterip = 127.0.0.1"),
        (r"^filterports = .*", f"filterports = {settings['port']}"), (r"^transparenthttpsport = .*", ""),
        (r"^#proxyip = .*", "proxyip = 127.0.0.1"),
        (r"^#proxyport = .*", f"proxyport = {lab.servers[settings.get('peer', 'nginx')]['port']}"),
        (r"^httpworkers = .*", lab.fill("httpworkers = {{workers=50}}", settings)), (r"^nodaemon = .*", "nodaemon = on"))
    text += lab.fill(f"""
loglocation = '{own}/access.log'
statlocation = '{own}/stats.log'
pidfilename = '{own}/pid'
daemonuser = '{{{{user}}}}'
daemongroup = '{{{{group}}}}'
{{{{more=}}}}
""", settings)
    config = write(etc / "e2guardian.conf", text)
    for name, lines in settings.get("lists", {}).items():
        write(etc / "lists" / name, f"{lines}\n")
    if "scanner" in lab.servers:
        write(etc / "contentscanners/icapscan.conf",
              f"plugname = 'icapscan'\nicapurl = 'icap://127.0.0.1:{lab.servers['scanner']['port']}/plant'\n")
    owned(lab, own)
    return ["e2guardian", "-N", "-c", config], {}, False


# So many networks are refused, by a rule for each, or by a file that one rule names.
REFUSED = 4000


def modsecurity(lab, settings, own):
    """nginx with ModSecurity before the web server that was started before it, with the package's advice and a case's rules."""
    text = replaced(
        Path("/etc/modsecurity/modsecurity.conf-recommended").read_text(), (r"^SecRuleEngine .*", "SecRuleEngine On"),
        (r"^SecRequestBodyInMemoryLimit .*", ""),
        (r"^SecResponseBodyAccess .*", lab.fill("SecResponseBodyAccess {{bodies=Off}}", settings)),
        (r"^SecTmpDir .*", f"SecTmpDir {own}"), (r"^SecDataDir .*", f"SecDataDir {own}"),
        (r"^SecAuditLog .*", f"SecAuditLog {own}/audit.log"),
        (r"^SecUnicodeMapFile unicode", "SecUnicodeMapFile /etc/modsecurity/unicode"))
    write(own / "refused", "".join(f"203.{n >> 8}.{n & 255}.0/24\n" for n in range(REFUSED)))
    write(own / "refused.conf", "".join(
        f'SecRule REMOTE_ADDR "@ipMatch 203.{n >> 8}.{n & 255}.0/24" "id:{100_000 + n},phase:1,deny,nolog"\n'
        for n in range(REFUSED)))
    rules = write(own / "rules.conf", f"{text}\n{lab.fill('{{rules=}}', settings)}\n")
    settings |= {
        "main": f"load_module {NGINX_MODULES}/ngx_http_modsecurity_module.so;\n",
        "server": f"modsecurity on; modsecurity_rules_file {rules};",
    }
    text = lab.fill((Path(__file__).parent / "configs/nginx-proxy.conf").read_text(), settings)
    return ["nginx", "-p", str(own), "-e", str(own / "start.log"), "-c", write(own / "nginx.conf", text)], {}, True


def acng(lab, settings, own):
    """Apt-Cacher NG before the mirror that was started before it, with what it keeps in a directory of its own."""
    for name in ("cache", "log"):
        (own / name).mkdir()
    mirror = list(lab.servers.values())[-2]["port"]
    write(own / "etc/acng.conf", lab.fill(f"""CacheDir: {own}/cache
LogDir: {own}/log
SupportDir: /usr/lib/apt-cacher-ng
SocketPath: {own}/socket
PidFile: {own}/pid
Port: {{{{port}}}}
BindAddress: 127.0.0.1
ReportPage: acng-report.html
ForeGround: 1
Remap-house: /debian ; {{{{scheme=http}}}}://127.0.0.1:{mirror}/debian
{{{{more=}}}}
""", settings))
    owned(lab, own)
    return ["apt-cacher-ng", "-c", str(own / "etc")], {"HOME": str(own)}, False


PERSISTENCE = """<persistence xmlns="http://xmlns.jcp.org/xml/ns/persistence" version="2.1">
<persistence-unit name="stock" transaction-type="RESOURCE_LOCAL">
<provider>org.eclipse.persistence.jpa.PersistenceProvider</provider><class>Stock$Valve</class>
</persistence-unit>
</persistence>
"""


def eclipselink(lab, settings, own):
    """In front of the database that was started before it."""
    where = class_path(lab, settings, "Stock", ECLIPSELINK)
    write(lab.common(settings)["build"] / "Stock/META-INF/persistence.xml", PERSISTENCE)
    return ["java", "-Xmx256m", "-cp", where, "Stock", str(settings["port"]), *extra(lab, settings)], {}, False


def happstack(lab, settings, own):
    """With what it keeps in a directory of its own."""
    return [haskell(lab, settings, "Happstack"), str(settings["port"]), str(own / "stock"), *extra(lab, settings)], {
        "LC_ALL": "C.UTF-8"}, False


# Modules of rspamd that would ask servers of names and of maps in the world.
ABROAD = ("surbl", "spf", "dkim", "dkim_signing", "dmarc", "arc", "asn", "fuzzy_check", "mx_check", "hfilter", "phishing",
          "rspamd_update", "whitelist", "mid", "mime_types")


def compile_rules(own, command):
    """What rspamd makes of its expressions, once for all cases: it takes some twenty seconds."""
    end = time.monotonic() + 90
    with running(own, command):
        while time.monotonic() < end:
            if (own / "rspamd.log").exists() and "after receiving compilation notice" in (own / "rspamd.log").read_text():
                break
            time.sleep(0.1)
    (own / "rspamd.log").unlink()


def rspamd(lab, settings, own):
    """With the package's configuration and rules, one worker for one core, and rules of the house in apps/rspamd_rules.lua."""
    etc, kept = own / "etc", lab.common(settings)["build"] / "hyperscan"
    names = lab.servers.get("names", {"port": 9})["port"]
    for name in ABROAD:
        write(etc / f"local.d/{name}.conf", "enabled = false;\n")
    write(etc / "local.d/worker-normal.inc", f'bind_socket = "127.0.0.1:{settings["port"]}";\ncount = 1;\n')
    for name in ("controller", "proxy"):
        write(etc / f"local.d/worker-{name}.inc", "enabled = false;\n")
    write(etc / "local.d/options.inc", f'dns {{ nameserver = ["127.0.0.1:{names}"]; }}\nhs_cache_dir = "{kept}";\n')
    write(etc / "override.d/rbl.conf", lab.fill("rbls { {{lists=}} }\n", settings))
    write(etc / "local.d/multimap.conf", lab.fill("{{maps=}}\n", settings))
    places = {"LOCAL_CONFDIR": etc, "DBDIR": own, "RUNDIR": own, "LOGDIR": own}
    command = ["rspamd", "-f", "-i", "-c", "/etc/rspamd/rspamd.conf", *(f"--var={name}={path}" for name, path in places.items())]
    if not kept.exists():
        kept.mkdir()
        compile_rules(own, command)
        for path in (kept, *kept.iterdir()):
            shutil.chown(path, own.stat().st_uid, own.stat().st_gid)
    shutil.copy(lab.dir / "apps/rspamd_rules.lua", etc / "rspamd.local.lua")
    owned(lab, own)
    return command, {"HOME": str(own)}, False


def freemarker(lab, settings, own):
    where = class_path(lab, settings, "Notices", FREEMARKER)
    return ["java", "-Xmx256m", "-cp", where, "Notices", str(settings["port"]), *extra(lab, settings),
            str(lab.dir / "apps/freemarker")], {}, False


# A set of keys has so many: each of a year's weeks had its own, and the last one signs.
KEYS = 52


def in_base64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_token(pem, claims):
    """A token of these claims with the signature of a key (RFC 7519, RS256)."""
    text = ".".join(in_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT", "kid": "now"}, claims))
    done = subprocess.run(["openssl", "dgst", "-sha256", "-sign", pem], input=text.encode(), check=True, capture_output=True)
    return f"{text}.{in_base64(done.stdout)}"


def openidc(lab, settings, own):
    """Apache before the web server that was started before it: who comes in has a token, which is looked into."""
    pem = lab.key("rsa:2048")
    done = subprocess.run(["openssl", "rsa", "-in", pem, "-noout", "-modulus"], check=True, capture_output=True, text=True)
    source = random.Random(7)
    moduli = [(f"week{n}", source.randbytes(256)) for n in range(1, KEYS)]
    moduli.append(("now", bytes.fromhex(done.stdout.strip().partition("=")[2])))
    write(lab.dir / "site/keys.json", json.dumps({"keys": [
        {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": name, "n": in_base64(modulus), "e": "AQAB"}
        for name, modulus in moduli]}))
    settings["token"] = signed_token(pem, {"sub": "fitter7", "scope": "valves", "exp": int(time.time()) + 86400})
    settings["more"] = """OIDCCryptoPassphrase "open and shut"
OIDCOAuthSSLValidateServer Off
{{oidc=}}
{{apart=}}
ProxyPass "/" "http://127.0.0.1:{{backend.port}}/"
<Location "/">
    AuthType oauth20
    Require valid-user
</Location>"""
    return apache(lab, settings, own, "proxy", "proxy_http", "authn_core", "authz_user", "auth_openidc")


def mason(lab, settings, own):
    """Pages in components of HTML::Mason, with a process of Apache for each connection of the load."""
    (own / "mason").mkdir()
    owned(lab, own)
    settings |= {"mpm": "prefork", "processes": PREFORK, "more": """PerlSetEnv DATABASE {{mariadb.port}}
PerlSetEnv METERS {{meters=0}}
{{perl=}}
PerlModule CGI HTML::Mason::ApacheHandler
Alias / {{dir}}/apps/mason/
<Directory {{dir}}/apps/mason>
    Require all granted
    SetHandler perl-script
    PerlResponseHandler HTML::Mason::ApacheHandler
    PerlSetVar MasonCompRoot {{dir}}/apps/mason
    PerlSetVar MasonDataDir {{own}}/mason
    PerlSetVar MasonErrorMode fatal
    {{mason=}}
</Directory>"""}
    return apache(lab, settings, own, "perl")


def grape(lab, settings, own):
    """On puma before the database that was started before it, with a thread for each connection of the load."""
    return ["puma", "-b", f"tcp://127.0.0.1:{settings['port']}", "--threads=16:16", "--environment=production",
            str(lab.dir / "apps/grape_app.ru")], {
        "HOME": str(own), "RACK_ENV": "production", "DATABASE": lab.fill("{{postgres.port}}", settings)}, False


# What is asked of debuginfod, and how many functions the program in its package has.
BUILD_ID, FUNCTIONS = "00010203040506070809000102030405060708aa", 6000


def archive(made):
    """A package with one program and its symbols, built from C."""
    root = made / "root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "usr/bin").mkdir(parents=True)
    (made / "packages").mkdir()
    (made / "tree").mkdir()
    write(root / "DEBIAN/control", "Package: valves-dbgsym\nVersion: 1\nArchitecture: all\nMaintainer: Plant <plant@example.org>\n"
          "Description: symbols of what counts valves\n")
    source = write(made / "valves.c", "".join(
        f"struct valve{n} {{ int number, hall; const char *name; struct valve{n} *next; }};\n"
        f"int count{n}(struct valve{n} *one) {{ int n = 0; for (; one; one = one->next) n += one->hall == {n}; return n; }}\n"
        for n in range(FUNCTIONS)) + "int main(void) { return 0; }\n")
    small = write(made / "valve.c", "int main(void) { return 0; }\n")
    quiet = {"check": True, "capture_output": True, "text": True}
    for text, program in ((source, root / "usr/bin/valves"), (small, made / "tree/valve")):
        subprocess.run(["gcc", "-g", f"-Wl,--build-id=0x{BUILD_ID}", "-o", str(program), text], **quiet)
    subprocess.run(["dpkg-deb", "-Zxz", "-b", str(root), str(made / "packages/valves-dbgsym_1_all.deb")], **quiet)


def debuginfod(lab, settings, own):
    """Symbols out of a package (`symbols = "packages"`), or a program behind a tree of so many objects (`tree`):
    when it is answered for, all has been looked at."""
    made = lab.common(settings)["build"] / "debuginfod"
    if not made.exists():
        archive(made)
    kind = settings.get("symbols", "packages")
    shutil.copytree(made / kind, own / kind)
    for n in range(settings.get("objects", 0)):
        if n % 200 == 0:
            (own / f"objects/{n // 200}").mkdir(parents=True)
        (own / f"objects/{n // 200}/{n}.o").touch()
    owned(lab, own)
    where = [str(own / name) for name in ("objects", kind) if (own / name).exists()]
    return ["debuginfod", "-U" if kind == "packages" else "-F", "-p", str(settings["port"]), "-d", str(own / "index.sqlite"),
            "--fdcache-mintmp=0", *extra(lab, settings), *where], {
        "HOME": str(own), "TMPDIR": str(own), "DEBUGINFOD_URLS": ""}, False


def mitmproxy(lab, settings, own):
    """TLS for its clients before the web server that was started before it, with apps/mitmproxy_house.py."""
    bodies = [part for n in range(settings.get("rewritten", 0)) for part in (
        "--modify-body", f"/~t html/valve-{n}\\.inside\\.example/valve-{n}.example.org")]
    return ["mitmdump", "--mode", f"reverse:http://127.0.0.1:{lab.fill('{{nginx.port}}', settings)}", "--listen-host", "127.0.0.1",
            "--listen-port", str(settings["port"]), "--set", f"confdir={own}/keys", "-s", str(lab.dir / "apps/mitmproxy_house.py"),
            *bodies, *extra(lab, settings)], {"HOME": str(own)}, False


def fill_alertmanager(port, count):
    """Silences for pumps that are being mended, of which no alert tells."""
    now = time.time()
    begin, end = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + seconds)) for seconds in (-60, 86_400))
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        once_it_listens(connection.connect)
        for n in range(count):
            connection.request("POST", "/api/v2/silences", json.dumps({
                "matchers": [{"name": "machine", "value": f"pump-{n}(-spare)?", "isRegex": True, "isEqual": True}],
                "startsAt": begin, "endsAt": end, "createdBy": "fitter", "comment": f"pump {n} is being mended",
            }), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read().decode()
            if answer.status != http.client.OK:
                raise ConnectionError(said)


def alertmanager(lab, settings, own):
    """Without a cluster; what tells it of alerts was started before it. A case may have a route for each machine."""
    routes = "".join(f"""  - receiver: nobody
    matchers: [ 'machine=~"{name}-{n}(-spare)?"' ]
""" for name in ("pump", "mill") for n in range(settings.get("routes", 0)))
    config = write(own / "alertmanager.yml", lab.fill("""route:
  receiver: nobody
  group_by: [alertname, hall]
  routes:
""" + routes + """  - receiver: nobody
    matchers: [ team=~"fitters-.*" ]
receivers: [ { name: nobody } ]
inhibit_rules:
- source_matchers: [ '{{source=severity="critical"}}' ]
  target_matchers: [ '{{target=severity="warning"}}' ]
  equal: [ machine ]
""", settings))
    command = ["prometheus-alertmanager", f"--config.file={config}", f"--storage.path={own}/data", "--cluster.listen-address=",
               "--web.get-concurrency=64", "--log.level=warn", "--web.listen-address"]
    if "silences" in settings:
        # At another port: who tells of alerts waits for this one.
        port = free_port()
        with running(own, [*command, f"127.0.0.1:{port}"]):
            fill_alertmanager(port, settings["silences"])
        owned(lab, own)
    return [*command, f"127.0.0.1:{settings['port']}"], {}, False


def hsqldb(lab, settings, own):
    """A database in the process, with a directory of its own; `properties` are those of its address."""
    where = class_path(lab, settings, "Tanks", HSQLDB)
    return ["java", "-Xmx256m", "-Dhttp.maxConnections=64", "-cp", where, "Tanks", str(settings["port"]), str(own / "db"),
            lab.fill("{{properties=}}", settings), lab.fill("{{supplier=0}}", settings), *extra(lab, settings)], {}, False


def doctrine(lab, settings, own):
    """PHP processes before the database that was started before, which has the tables of the entities."""
    (own / "proxies").mkdir()
    place = lab.dir / "apps/doctrine"
    subprocess.run(["php", "-n", *DOCTRINE, "-d", "apc.enable_cli=1", str(place / "install.php"),
                    lab.fill("{{postgres.port}}", settings), str(own / "proxies")], check=True, capture_output=True, text=True)
    owned(lab, own)
    settings |= {"index": str(place / "index.php"), "own": str(own)}
    text = lab.fill((Path(__file__).parent / "configs/php-fpm.conf").read_text(), settings)
    return ["php-fpm", "-F", "-n", "-y", write(own / "php-fpm.conf", text), *DOCTRINE, "-d", "display_errors=0"], {}, True


def pgpool(lab, settings, own):
    """A depot's pages before the pgpool and the database that were started before."""
    command, env, privileged = threaded("pgpool_app")(lab, settings, own)
    return command, env | {"HOME": str(own), "DATABASE": lab.fill("{{pgpool2.port}}", settings),
                           "DIRECT": lab.fill("{{postgres.port}}", settings)}, privileged


# Radiographs of a valve's weld: so many small slices, one large picture behind them, and the root of their numbers.
SLICES, SIDE, LARGE_SIDE, UID_ROOT = 60, 64, 1024, "1.2.826.0.1.3680043.2.1143"


def element(group, number, kind, value):
    """One element of DICOM, explicit and with the little end first (PS3.5, 7.1.2)."""
    data = value.encode() if isinstance(value, str) else value
    data += b"" if len(data) % 2 == 0 else b"\0" if kind == "UI" else b" "
    length = struct.pack("<2xI" if kind in ("OB", "OW") else "<H", len(data))
    return struct.pack("<HH2s", group, number, kind.encode()) + length + data


def radiograph(n, side):
    """One picture as a file (PS3.10), of bytes that a packer makes half as many of."""
    image, number, bits = f"{UID_ROOT}.1.1.{n}", struct.pack("<H", side), struct.pack("<H", 16)
    pixels = bytes(random.Random(n).choices(range(16), k=2 * side * side))
    meta = (element(2, 1, "OB", b"\0\1") + element(2, 2, "UI", "1.2.840.10008.5.1.4.1.1.7") + element(2, 3, "UI", image)
            + element(2, 0x10, "UI", "1.2.840.10008.1.2.1") + element(2, 0x12, "UI", UID_ROOT))
    texts = [(8, 0x16, "UI", "1.2.840.10008.5.1.4.1.1.7"), (8, 0x18, "UI", image), (8, 0x20, "DA", "20230517"),
             (8, 0x30, "TM", "101500"), (8, 0x50, "SH", f"WELD{n}"), (8, 0x60, "CS", "OT"), (8, 0x70, "LO", "Plant"),
             (8, 0x1030, "LO", "Weld of a valve"), (8, 0x103e, "LO", "Around the flange"), (0x10, 0x10, "PN", "Valve^Seven"),
             (0x10, 0x20, "LO", "VALVE7"), (0x18, 0x50, "DS", "1.5"), (0x20, 0xd, "UI", f"{UID_ROOT}.1"),
             (0x20, 0xe, "UI", f"{UID_ROOT}.1.1"), (0x20, 0x13, "IS", str(n)), (0x20, 0x32, "DS", f"0\\0\\{n * 1.5}"),
             (0x20, 0x37, "DS", "1\\0\\0\\0\\1\\0"), (0x28, 2, "US", struct.pack("<H", 1)), (0x28, 4, "CS", "MONOCHROME2"),
             (0x28, 0x10, "US", number), (0x28, 0x11, "US", number), (0x28, 0x100, "US", bits), (0x28, 0x101, "US", bits),
             (0x28, 0x102, "US", struct.pack("<H", 15)), (0x28, 0x103, "US", b"\0\0"),
             (0x7fe0, 0x10, "OW", pixels)]
    return (bytes(128) + b"DICM" + element(2, 0, "UL", struct.pack("<I", len(meta))) + meta
            + b"".join(element(*text) for text in texts))


def fill_orthanc(port):
    def post(data):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request("POST", "/instances", data)
            return connection.getresponse().status

    pictures = [*(radiograph(n, SIDE) for n in range(SLICES)), radiograph(SLICES, LARGE_SIDE)]
    for picture in pictures:
        once_it_listens(lambda: post(picture))


def orthanc(lab, settings, own):
    """With radiographs in its store, which were sent to it once for all cases. It listens at all addresses: its cases
    have a network of their own."""
    own_options = json.loads(lab.fill(json.dumps(settings.get("options", {})), settings))
    packed = own_options.get("StorageCompression", False)
    made = lab.common(settings)["build"] / f"orthanc-{'packed' if packed else 'plain'}"
    options = {"Name": "Plant", "HttpPort": settings["port"], "DicomServerEnabled": False, "RemoteAccessAllowed": False,
               "AuthenticationEnabled": False, "Plugins": ["/usr/share/orthanc/plugins/libOrthancDicomWeb.so"]}
    if not made.exists():
        first = options | {"StorageDirectory": str(made), "IndexDirectory": str(made), "StorageCompression": packed}
        with running(own, ["Orthanc", write(own / "first.json", json.dumps(first))]):
            fill_orthanc(settings["port"])
    shutil.copytree(made, own / "store")
    options |= {"StorageDirectory": str(own / "store"), "IndexDirectory": str(own / "store")} | own_options
    owned(lab, own)
    return ["Orthanc", write(own / "orthanc.json", json.dumps(options)), *extra(lab, settings)], {"HOME": str(own)}, False


def smarty(lab, settings, own):
    """PHP processes with pages that Smarty keeps in files, all of which were made before."""
    for name in ("compiled", "kept"):
        (own / name).mkdir()
    place = lab.dir / "apps/smarty"
    subprocess.run(["php", "-n", *SMARTY, str(place / "install.php"), str(own), *extra(lab, settings)], check=True,
                   capture_output=True, text=True)
    owned(lab, own)
    settings |= {"index": str(place / "index.php"), "own": str(own)}
    text = lab.fill((Path(__file__).parent / "configs/php-fpm.conf").read_text(), settings)
    return ["php-fpm", "-F", "-n", "-y", write(own / "php-fpm.conf", text), *SMARTY, "-d", "display_errors=0"], {}, True


def twemproxy(lab, settings, own):
    """Before the servers of memcached at the ports `shards`, of which each has a name of its own, as is recommended."""
    ports = lab.fill(settings["shards"], settings).split()
    shards = "".join(f"    - 127.0.0.1:{port}:1 shard{n}\n" for n, port in enumerate(ports))
    pool = lab.fill("""pages:
  listen: 127.0.0.1:{{port}}
  hash: fnv1a_64
  distribution: ketama
  preconnect: true
  {{more=}}
  servers:
""", settings)
    files = ["-c", write(own / "nutcracker.yml", pool + shards), "-o", str(own / "nutcracker.log"), "-p", str(own / "pid")]
    return ["nutcracker", *files, "-a", "127.0.0.1", "-s", str(free_port()), *extra(lab, settings)], {}, False


def photographs(place):
    """A photograph of a site and a smaller one of a hall, in tiles and all sizes, the hall also in its full size alone."""
    def vips(*words):
        subprocess.run(["vips", *map(str, words)], cwd=place, check=True, capture_output=True, text=True)
    tiles = ["--tile", "--tile-width", 256, "--tile-height", 256, "--compression", "jpeg", "--Q", 90]
    place.mkdir()
    vips("worley", "shapes.v", 8192, 8192, "--cell-size", 96)
    vips("gaussnoise", "grain.v", 8192, 8192, "--sigma", 12, "--mean", 0)
    vips("add", "shapes.v", "grain.v", "grey.v")
    vips("cast", "grey.v", "byte.v", "uchar")
    vips("bandjoin", "byte.v byte.v byte.v", "site.v")
    vips("crop", "site.v", "hall.v", 0, 0, 1024, 1024)
    vips("tiffsave", "site.v", "site.tif", "--pyramid", *tiles)
    vips("tiffsave", "hall.v", "hall.tif", "--pyramid", *tiles)
    vips("tiffsave", "hall.v", "hall-alone.tif", *tiles)
    for path in place.glob("*.v"):
        path.unlink()


def iipimage(lab, settings, own):
    """One process of the image server for FastCGI, which takes one request at a time."""
    made = lab.common(settings)["build"] / "photographs"
    if not made.exists():
        photographs(made)
    return [IIPSRV, "--bind", f"127.0.0.1:{settings['port']}", "--backlog", "1024"], {
        "FILESYSTEM_PREFIX": f"{made}/", "OMP_NUM_THREADS": "1"}, False


def derby(lab, settings, own):
    """A database in the process, which is filled once for all cases; `pages` of 4 KB may be in its cache."""
    where = class_path(lab, settings, "Pumps", DERBY)
    made = lab.common(settings)["build"] / "pumps"
    if not made.exists():
        subprocess.run(["java", "-Dderby.system.durability=test", f"-Dderby.stream.error.file={own}/filling.log", "-cp", where,
                        "Pumps", "fill", str(made)], check=True, capture_output=True, text=True)
    shutil.copytree(made, own / "pumps")
    owned(lab, own)
    flags = [f"-Dderby.stream.error.file={own}/derby.log", lab.fill("-Dderby.storage.pageCacheSize={{pages=20000}}", settings)]
    return ["java", "-Xmx512m", *flags, "-cp", where, "Pumps", str(settings["port"]), str(own / "pumps"),
            str(settings.get("aged_at_once", 0))], {}, False


def kazoo(lab, settings, own):
    """In front of the ZooKeeper that was started before it."""
    command, _, privileged = threaded("kazoo_app")(lab, settings, own)
    return command, {"HOME": str(own), "ZOOKEEPER": lab.fill("{{zookeeper.port}}", settings)}, privileged


def reports(lab):
    """The directory of an index of reports, written once for all cases."""
    made = lab.common({"kind": "xapian"})["build"] / "reports"
    if not made.exists():
        subprocess.run(["perl", str(lab.dir / "apps/xapian/index.pl"), str(made)], check=True, capture_output=True, text=True)
    return made


def xapian(lab, settings, own):
    """A process for each connection of the load, and the index in each of them, or at the server `remote` names."""
    index = reports(lab)
    if "remote" in settings:
        index = write(own / "stub", lab.fill("remote 127.0.0.1:{{remote}}\n", settings))
    return ["starman", "--listen", f"127.0.0.1:{settings['port']}", "--workers", "16", "--max-requests", "1000000",
            str(lab.dir / "apps/xapian/app.psgi")], {"HOME": str(own), "OWN": str(own), "INDEX": str(index)}, False


def casbin(lab, settings, own):
    """Its packages call themselves version 2, and Debian has them at a path without it."""
    place = lab.common(settings)["build"] / "casbin"
    program = place / "casbin_app"
    if not program.exists():
        versions = place / "src/github.com/casbin/casbin"
        versions.mkdir(parents=True)
        (versions / "v2").symlink_to(f"{GOPATH}/src/github.com/casbin/casbin")
        subprocess.run(["go", "build", "-o", str(program), "casbin_app.go"], cwd=lab.dir / "apps", check=True, capture_output=True,
                       text=True, env=os.environ | {"GO111MODULE": "off", "GOPATH": f"{place}:{GOPATH}"})
    return [str(program), str(settings["port"]), *extra(lab, settings)], {"OWN": str(own)}, False


# Rows of each table of a hall.
READINGS = 80_000


def phpmyadmin(lab, settings, own):
    """PHP processes with the packaged program and a configuration of its own, before the database that was started before."""
    packaged, site, kept = Path("/usr/share/phpmyadmin"), own / "site", own / "sessions"
    (site / "libraries").mkdir(parents=True)
    for path in (*packaged.iterdir(), *(packaged / "libraries").iterdir()):
        if path.name not in ("index.php", "libraries", "vendor_config.php"):
            (site / path.relative_to(packaged)).symlink_to(path)
    write(site / "libraries/vendor_config.php", replaced(
        (packaged / "libraries/vendor_config.php").read_text(), (r"'/etc/phpmyadmin/config.inc.php'", f"'{own}/config.inc.php'")))
    settings["index"] = write(site / "index.php", f"""<?php
define('ROOT_PATH', '{site}/');
require '{packaged}/index.php';
""")
    write(own / "config.inc.php", lab.fill("""<?php
$cfg['blowfish_secret'] = 'open and shut and open and shut.';
$cfg['Servers'][1] = ['host' => '127.0.0.1', 'port' => '{{mariadb.port}}', 'auth_type' => 'config', 'user' => 'truth',
    'password' => '', 'AllowNoPassword' => true];
$cfg['SessionSavePath'] = '{{own}}/sessions';
$cfg['TempDir'] = '{{own}}/tmp';
{{pma=}}
""", settings))
    (own / "tmp").mkdir()
    kept.mkdir()
    for n in range(settings.get("sessions", 0)):
        write(kept / f"sess_{n:026}", "PMA_token|s:3:\"old\";")
    owned(lab, own)
    subprocess.run(["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", lab.fill("{{mariadb.port}}", settings), "-u", "truth",
                    "truth"], check=True, capture_output=True, text=True, input="".join(
        f"create table hall{n} (id int primary key, note varchar(80)) engine=innodb select seq id, 'open and shut' note "
        f"from seq_1_to_{READINGS}; analyze table hall{n};\n" for n in range(settings.get("halls", 0))))
    text = lab.fill((Path(__file__).parent / "configs/php-fpm.conf").read_text(), settings)
    return ["php-fpm", "-F", "-n", "-y", write(own / "php-fpm.conf", text), *ADMINISTRATION, "-d", "display_errors=0", "-d",
            lab.fill("session.gc_probability={{cleaning=0}}", settings)], {}, True


def sphinx(lab, settings, own):
    return ["node", str(lab.dir / "apps/sphinx_app.js"), str(settings["port"]), *extra(lab, settings)], {
        "NODE_PATH": NODE, "HOME": str(own), "NODE_ENV": "production"}, False


def gearman(lab, settings, own):
    """PHP processes that ask others for what takes longer."""
    settings["index"] = str(lab.dir / "apps/gearman/index.php")
    text = lab.fill((Path(__file__).parent / "configs/php-fpm.conf").read_text(), settings)
    return ["php-fpm", "-F", "-n", "-y", write(own / "php-fpm.conf", text), *GEARMAN, *OPCACHE, "-d",
            "display_errors=0"], {}, True


def perlbal(lab, settings, own):
    """Before a server of the name `node`, with connections that stay on both sides, or what `service` says."""
    before = """SET role = reverse_proxy
  SET pool = nodes
  SET persist_backend = {{persist_backend=on}}
  SET verify_backend = on"""
    pool = "CREATE POOL nodes\n  POOL nodes ADD 127.0.0.1:{{node.port}}\n" if "service" not in settings else ""
    text = lab.fill(f"""{{{{plugins=}}}}
{pool}CREATE SERVICE plant
  {settings.get("service", before)}
  SET listen = 127.0.0.1:{{{{port}}}}
  SET persist_client = on
  {{{{more=}}}}
ENABLE plant
""", settings)
    return ["perlbal", f"--config={write(own / 'perlbal.conf', text)}"], {"HOME": str(own)}, False


def courier(lab, settings, *args):
    """One of the programs of apps/Courier.java."""
    return ["java", "-Xmx256m", "-cp", class_path(lab, settings, "Courier", ACTIVEMQ), "Courier", *args], {}, False


def activemq(lab, settings, own):
    return courier(lab, settings, "web", str(settings["port"]), *extra(lab, settings),
                   lab.fill("{{broker.port}}", settings))


def kore(lab, settings, own):
    """One worker with the module of apps/kore_app.c; `route` is its function for the page, `kore` more of the file.

    Left alone, it puts its workers on cores of its own choice: that of the load, here.
    """
    module = lab.common(settings)["build"] / "kore_app.so"
    if not module.exists():
        flags = ["-O2", "-g", "-shared", "-fPIC", "-I/usr/include/postgresql"]
        subprocess.run(["cc", *flags, "-o", str(module), "kore_app.c"], cwd=lab.dir / "apps", check=True,
                       capture_output=True, text=True)
    (own / "letters").mkdir()
    owned(lab, own)
    settings["module"] = str(module)
    text = lab.fill("""server plant {
    bind 127.0.0.1 {{port}}
    tls no
}
load {{module}}
workers 1
worker_set_affinity 0
pidfile {{own}}/pid
{{kore=}}
domain * {
    attach plant
    route / {{route}}
    restrict / get post
}
""", settings)
    return ["kore", "-f", "-n", "-r", "-c", write(own / "kore.conf", text)], {"HOME": str(own)}, False


def dovecot(lab, settings, own):
    """Before the mailboxes that were started before, with a thread for each connection of the load."""
    return ["puma", "-b", f"tcp://127.0.0.1:{settings['port']}", "--threads=16:16", "--environment=production",
            str(lab.dir / "apps/dovecot_app.ru")], {
        "HOME": str(own), "RACK_ENV": "production", "DOVECOT": lab.fill("{{imapd.port}}", settings)}, False


def noderedis(lab, settings, own):
    """One process of Node that keeps what it has in Redis."""
    return ["node", str(lab.dir / "apps/stock_app.js"), str(settings["port"]), *extra(lab, settings)], {
        "NODE_PATH": NODE, "HOME": str(own)}, False


def servlet(lab, settings, own):
    """Tomcat with apps/Stores.java as its only application, which has the driver for PostgreSQL among its libraries."""
    home = "/usr/share/tomcat10"
    classes = class_path(lab, settings, "Stores", [f"{home}/lib/servlet-api.jar", f"{home}/lib/tomcat-dbcp.jar"])
    inside = own / "webapps/ROOT/WEB-INF"
    for path in (own / "conf", own / "temp", own / "work", own / "logs", inside / "lib"):
        path.mkdir(parents=True)
    shutil.copytree(classes.partition(":")[0], inside / "classes")
    shutil.copy("/usr/share/java/postgresql.jar", inside / "lib")
    configs = Path(__file__).parent / "configs"
    write(own / "conf/server.xml", lab.fill((configs / "tomcat-server.xml").read_text(), settings))
    url = lab.fill("jdbc:postgresql://127.0.0.1:{{postgres.port}}/postgres{{driver=}}", settings)
    known = {"url": url, "page": settings["page"], "rows": settings.get("rows", 0), "kept": settings.get("kept", "true")}
    told = "".join(f"<init-param><param-name>{name}</param-name><param-value>{value}</param-value></init-param>\n"
                   for name, value in known.items())
    write(own / "conf/web.xml", f"""<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0">
<servlet><servlet-name>stores</servlet-name><servlet-class>Stores</servlet-class>
{told}<load-on-startup>1</load-on-startup></servlet>
<servlet-mapping><servlet-name>stores</servlet-name><url-pattern>/</url-pattern></servlet-mapping>
</web-app>
""")
    owned(lab, own)
    return ["java", "-Xmx512m", *extra(lab, settings), f"-Dcatalina.home={home}", f"-Dcatalina.base={own}",
            f"-Djava.io.tmpdir={own}/temp", "-cp", f"{home}/bin/bootstrap.jar:{home}/bin/tomcat-juli.jar",
            "org.apache.catalina.startup.Bootstrap", "start"], {}, False


def firebird(lab, settings, own):
    """PHP processes that ask Firebird by PDO."""
    settings["index"] = str(lab.dir / "apps/firebird/index.php")
    text = lab.fill((Path(__file__).parent / "configs/php-fpm.conf").read_text(), settings)
    return ["php-fpm", "-F", "-n", "-y", write(own / "php-fpm.conf", text), *extensions("pdo", "pdo_firebird"), *OPCACHE, "-d",
            "display_errors=0"], {}, True


def dalli(lab, settings, own):
    """With a thread for each connection of the load."""
    return ["puma", "-b", f"tcp://127.0.0.1:{settings['port']}", "--threads=16:16", "--environment=production",
            str(lab.dir / "apps/dalli_app.ru")], {"HOME": str(own), "RACK_ENV": "production"}, False


def pen(lab, settings, own):
    """Before the servers that `servers` names, with the flags that `args` has."""
    servers = [f"127.0.0.1:{lab.servers[name]['port']}" for name in settings["servers"]]
    return ["pen", "-f", *extra(lab, settings), f"127.0.0.1:{settings['port']}", *servers], {}, False


COMMANDS = {
    "jetty": jetty, "trafficserver": trafficserver, "squid": squid, "h2o": h2o, "hitch": hitch, "puma": puma,
    "unicorn": unicorn, "uvicorn": uvicorn, "waitress": waitress, "tornado": tornado,
    "starman": starman, "yaws": yaws, "nghttpx": nghttpx, "thin": thin, "aiohttp": aiohttp,
    "twisted": twisted, "cherrypy": cherrypy, "gevent": gevent, "gosql": go_program("database.go"),
    "hypnotoad": hypnotoad, "sinatra": sinatra,
    "django": threaded("django_app"), "flask": threaded("flask_app"), "fastapi": fastapi, "lua": lua, "netty": netty,
    "goredis": go_program("store.go"),
    "bottle": threaded("bottle_app"), "falcon": threaded("falcon_app"), "quart": quart,
    "gin": gin, "microhttpd": c_program("microhttpd_app.c", "microhttpd"), "fcgi": c_program("fcgi_app.c", "fcgi"),
    "express": express, "dancer": dancer, "warp": warp, "evhttp": c_program("evhttp_app.c", "event", "pthread"),
    "jdkhttp": jdkhttp, "njs": njs, "modperl": modperl, "modwsgi": modwsgi,
    "fasthttp": go_program("fasthttp_app.go"),
    "beast": cpp_program("beast_app.cpp", "-I/usr/include/postgresql", "-lpq", "-pthread"),
    "pyramid": pyramid, "libsoup": libsoup, "inets": inets,
    "hunchentoot": hunchentoot,
    "httplib": httplib, "rails": rails, "daphne": daphne, "nim": nim, "prolog": prolog, "webdis": webdis,
    "civetweb": c_program("civetweb_app.c", "civetweb"),
    "poco": cpp_program("poco_app.cpp", "-std=c++17", "-lPocoNet", "-lPocoJSON", "-lPocoFoundation", "-pthread"),
    "eventlet": eventlet, "cohttp": cohttp,
    "ring": ring, "racket": racket,
    "echo": go_program("echo_app.go"),
    "spring": spring,
    "wordpress": wordpress,
    "passenger": passenger,
    "mochiweb": mochiweb,
    "cpprest": cpp_program("cpprest_app.cpp", "-lcpprest", "-lboost_system", "-lssl", "-lcrypto", "-pthread"),
    "modproxy": modproxy, "cgit": cgit, "pistache": pistache, "mono": mono, "catalyst": catalyst, "mediawiki": mediawiki,
    "dokuwiki": dokuwiki, "haml": haml, "perlfcgi": perlfcgi, "httpproxy": httpproxy, "crystal": crystal,
    "ldap": threaded("ldap_app"),
    "prometheus": prometheus, "jk": jk, "hyper": hyper, "plumber": plumber, "twiggy": twiggy, "radicale": radicale,
    "chi": go_program("chi_app.go"), "connect": connect, "pdns": pdns, "graphite": graphite, "svn": svn,
    "simple": simple, "influxdb": influxdb, "mapproxy": mapproxy, "async": fibers, "webpy": webpy,
    "modlua": modlua, "hgweb": hgweb, "registry": registry, "luahttp": luahttp, "httpcore": httpcore,
    "gorilla": go_program("gorilla_app.go"), "nginxperl": nginxperl, "etcd": etcd, "groovy": groovy, "tinyhttp": tinyhttp,
    "tinyproxy": tinyproxy, "fphttp": fphttp, "resteasy": resteasy, "tcl": tcl, "rabbitmq": rabbitmq,
    "httprouter": httprouter, "pike": pike, "ejabberd": ejabberd, "clickhouse": clickhouse, "kamailio": kamailio,
    "restful": go_program("restful_app.go"), "qthttp": qthttp,
    "imagefilter": imagefilter, "prosody": prosody, "pecan": pecan,
    "graphene": threaded("graphene_app"), "modauth": modauth, "rclone": rclone, "guile": guile, "mapserver": mapserver,
    "c3p0": orders, "modcache": modcache, "slim": slim, "nodemysql": nodemysql, "flaskext": flaskext,
    "xslt": xslt, "nats": go_program("nats_app.go"), "lucene": lucene, "drf": threaded("drf_app"),
    "victoria": victoria, "dnsdist": dnsdist, "soap": soap, "stunnel": stunnel,
    "groonga": groonga, "symfony": symfony, "scala": scala, "laravel": laravel,
    "privoxy": privoxy, "pushgateway": pushgateway, "kotlin": kotlin, "scotty": scotty,
    "e2guardian": e2guardian, "gorm": go_program("gorm_app.go"), "modsecurity": modsecurity, "acng": acng,
    "eclipselink": eclipselink, "happstack": happstack, "rspamd": rspamd,
    "freemarker": freemarker, "openidc": openidc, "mason": mason, "grape": grape, "debuginfod": debuginfod,
    "mitmproxy": mitmproxy, "alertmanager": alertmanager, "hsqldb": hsqldb, "doctrine": doctrine, "pgpool": pgpool,
    "orthanc": orthanc, "smarty": smarty, "badger": go_program("badger_app.go"), "lws": c_program("lws_app.c", "websockets"),
    "twemproxy": twemproxy, "iipimage": iipimage, "derby": derby, "kazoo": kazoo, "xapian": xapian,
    "casbin": casbin, "phpmyadmin": phpmyadmin, "paho": threaded("paho_app"), "sphinx": sphinx,
    "gearman": gearman, "perlbal": perlbal, "activemq": activemq,
    "peewee": threaded("peewee_app"), "gokit": go_program("gokit_app.go"),
    "kore": kore, "noderedis": noderedis, "servlet": servlet, "tariffs": go_program("tariffs_app.go"),
    "gauges": cpp_program("gauges_app.cpp", "-std=c++17", "-pthread"),
    "dovecot": dovecot, "firebird": firebird, "dalli": dalli, "pen": pen, "amqp": go_program("amqp_app.go"),
    "restinio": cpp_program("restinio_app.cpp", "-std=c++17", "-DRESTINIO_USE_BOOST_ASIO=1", "-lrocksdb", "-lfmt",
                            "-lhttp_parser", "-pthread"),
    "ulfius": c_program("ulfius_app.c", "ulfius", "yder", "orcania", "jansson", "curl", "pthread"),
}
