"""Databases, caches, poolers, a bus, a broker, a coordinator, mailboxes and a container of servlets: what servers ask.

Each is a real server on the servers' core with its data below the state's own directory. PostgreSQL and MariaDB have 20,000 rows
in `valves`, of which `name` has no index and `id` has, and 64 counters; nothing is synced unless a case says so.
"""

import grp
import os
import pwd
import random
import shutil
import socket
import subprocess
from pathlib import Path

from defaults import write
from families import (
    ACTIVEMQ, GEARMAN, GOPATH, PYTHON, courier, free_port, go_program, node, once_it_listens, owned, reports, running, threaded)

POSTGRES = next((str(path.parent) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))), "/usr/lib/postgresql")
TABLES = (
    "create table valves (id int primary key, name text, note text)",
    "insert into valves select n, 'valve ' || n, repeat('open and shut ', 4) from generate_series(1, 20000) n",
    "create table counters (id int primary key, n int) with (fillfactor = 20)",
    "insert into counters select n, 0 from generate_series(1, 64) n",
    "create table sessions (sess_id varchar(128) primary key, sess_data bytea, sess_lifetime int, sess_time int)",
    "insert into sessions values ('abcdefghijklmnopqrstuvwxyz', '_sf2_attributes|a:1:{s:4:\"name\";s:6:\"fitter\";}', 2147483647, 0)",
    "vacuum analyze",
)
MARIADB_TABLES = (
    "create user truth@'127.0.0.1'",
    "create database truth",
    "grant all on truth.* to truth@'127.0.0.1'",
    "use truth",
    "create table valves (id int primary key, name varchar(40), note varchar(80)) engine=innodb",
    "insert into valves select seq, concat('valve ', seq), repeat('open and shut ', 4) from seq_1_to_20000",
    "create table counters (id int primary key, n int) engine=innodb",
    "insert into counters select seq, 0 from seq_1_to_64",
    "create table visits (id int auto_increment primary key, page varchar(40)) engine=innodb",
    "analyze table valves, counters",
)
ZOOKEEPER = [f"/usr/share/java/{part}.jar" for part in (
    "zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "netty-handler", "netty-transport", "netty-buffer", "netty-common",
    "metrics-core", "snappy-java", "commons-io")]

NEEDS = {
    "postgres": (f"{POSTGRES}/postgres", "postgresql"),
    "pgbouncer": ("pgbouncer", "pgbouncer"),
    "mariadb": ("mariadbd", "mariadb-server"),
    "redis": ("redis-server", "redis-server"),
    "memcached": ("memcached", "memcached"),
    "slapd": ("slapd", "slapd"),
    "celery": ("/usr/lib/python3/dist-packages/celery/__init__.py", "python3-celery python3-pecan python3-redis"),
    "bus": ("nats-server", "nats-server"),
    "worker": (f"{GOPATH}/src/github.com/nats-io/nats.go/nats.go", "golang-go golang-github-nats-io-go-nats-dev"),
    "pgpool2": ("pgpool", "pgpool2"),
    "zookeeper": (ZOOKEEPER[0], "libzookeeper-java default-jdk-headless"),
    "tcpsrv": ("xapian-tcpsrv", "xapian-tools libsearch-xapian-perl"),
    "mosquitto": ("mosquitto", "mosquitto python3-paho-mqtt"),
    "valves": (f"{PYTHON}/paho/mqtt/client.py", "python3-paho-mqtt"),
    "searchd": ("searchd", "sphinxsearch mariadb-client"),
    "broker": (ACTIVEMQ[0], "libactivemq-java libjetty9-java libservlet-api-java default-jdk-headless"),
    "courier": (ACTIVEMQ[0], "libactivemq-java libjetty9-java libservlet-api-java default-jdk-headless"),
    "gearmand": ("gearmand", "gearman-job-server"),
    "gearworker": ("/usr/share/doc/php-gearman", "php-cli php-gearman"),
    "imapd": ("/usr/lib/dovecot/imap", "dovecot-imapd"),
    "rabbit": ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"),
    "printer": (f"{GOPATH}/src/github.com/streadway/amqp/channel.go", "golang-go golang-github-streadway-amqp-dev"),
    "fbserver": ("/usr/sbin/firebird", "firebird3.0-server firebird3.0-utils"),
    "plant": (f"{PYTHON}/spyne/__init__.py", "gunicorn python3-spyne"),
    "ajp": ("/usr/share/tomcat10/bin/bootstrap.jar", "tomcat10-common default-jdk-headless"),
}
PEOPLE, FITTERS = 5000, 30
SLAPD = """include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
pidfile {{own}}/pid
modulepath /usr/lib/ldap
moduleload back_mdb
loglevel none
database mdb
suffix dc=truth
rootdn cn=book,dc=truth
rootpw "open and shut"
directory {{own}}/data
maxsize 268435456
dbnosync
index {{index=objectClass,uid,telephoneNumber}} eq
"""

# Letters of a fitter's mailbox, where a case says nothing else; each eighth is unread.
LETTERS = 2000
DOVECOT = """protocols = imap
listen = 127.0.0.1
base_dir = {{own}}/run
state_dir = {{own}}/state
log_path = {{own}}/dovecot.log
default_internal_user = {{who}}
default_internal_group = {{whose}}
default_login_user = {{who}}
first_valid_uid = 0
first_valid_gid = 0
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{{own}}/mail{{index=}}
mail_max_userip_connections = 64
passdb {
  driver = static
  args = password=open
}
userdb {
  driver = static
  args = uid={{who}} gid={{whose}} home={{own}}
}
service imap-login {
  chroot =
  inet_listener imap {
    port = {{port}}
  }
  inet_listener imaps {
    port = 0
  }
}
service anvil {
  chroot =
}
"""

FIREBIRD = next((str(path) for path in sorted(Path("/usr/lib").glob("*/firebird/3.0"))), "/usr/lib/firebird/3.0")
FIREBIRD_TABLES = """create database '{{own}}/plant.fdb' page_size 8192;
create table valves (id int not null primary key, name varchar(40), note varchar(80));
create table numbers (id int not null primary key, n int);
create sequence orders;
commit;
set term ^;
execute block as declare n int = 1;
begin
  while (n <= 20000) do begin
    insert into valves values (:n, 'Valve ' || :n, 'open and shut open and shut open and shut');
    n = n + 1;
  end
end^
set term ;^
insert into numbers values (1, 0);
commit;
{{index=}}
create user truth password 'open' using plugin Srp;
grant all on valves to truth;
grant all on numbers to truth;
grant usage on sequence orders to truth;
commit;
"""


def extra(lab, settings):
    return [lab.fill(str(arg), settings) for arg in settings.get("args", [])]


def owner(lab, settings, own):
    """How a program is run as the servers' user."""
    return {"user": own.stat().st_uid, "group": own.stat().st_gid, "extra_groups": []} if lab.common(settings)["user"] else {}


def postgres(lab, settings, own):
    """A cluster of its own, made and filled before the server starts; it refuses to be root's."""
    who = owner(lab, settings, own)
    data = own / "data"
    quiet = {"check": True, "capture_output": True, "text": True, "cwd": own}
    subprocess.run([f"{POSTGRES}/initdb", "-N", "-A", "trust", "-U", "truth", "--no-locale", "-E", "UTF8", "-D", str(data)],
                   **quiet, **who)
    subprocess.run([f"{POSTGRES}/postgres", "--single", "-F", "-D", str(data), "postgres"], input="\n".join(TABLES) + "\n",
                   **quiet, **who)
    options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": own, "fsync": "off", "shared_buffers": "32MB",
               "autovacuum": "off"}
    flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    return [f"{POSTGRES}/postgres", "-D", str(data), "-p", str(settings["port"]), *flags, *extra(lab, settings)], {}, False


def pgbouncer(lab, settings, own):
    """In front of the database that was started before it, a connection for each transaction."""
    text = lab.fill("[databases]\npostgres = host=127.0.0.1 port={{postgres.port}} user=truth\n[pgbouncer]\n"
                    "listen_addr = 127.0.0.1\nlisten_port = {{port}}\nauth_type = any\npool_mode = transaction\n"
                    "unix_socket_dir =\ndefault_pool_size = {{pool_size=20}}\n", settings)
    return ["pgbouncer", "-q", write(own / "pgbouncer.ini", text)], {}, False


def mariadb(lab, settings, own):
    """Filled by its first statements, before it listens."""
    data, tables = own / "data", own / "tables.sql"
    tables.write_text("".join(f"{statement};\n" for statement in MARIADB_TABLES))
    subprocess.run(["mariadb-install-db", "--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal",
                    f"--datadir={data}"], check=True, capture_output=True, text=True, cwd=own, **owner(lab, settings, own))
    options = {"datadir": data, "socket": own / "socket", "pid-file": own / "pid", "bind-address": "127.0.0.1",
               "port": settings["port"], "init-file": tables, "skip-name-resolve": "on", "innodb-flush-log-at-trx-commit": 0,
               "innodb-buffer-pool-size": "64M"}
    return ["mariadbd", "--no-defaults", *[f"--{name}={value}" for name, value in options.items()], *extra(lab, settings)], {}, False


def redis(lab, settings, own):
    return ["redis-server", "--bind", "127.0.0.1", "--port", str(settings["port"]), "--save", "", "--dir", str(own),
            *extra(lab, settings)], {}, False


def memcached(lab, settings, own):
    return ["memcached", "-l", "127.0.0.1", "-p", str(settings["port"]), "-t", "1", *extra(lab, settings)], {}, False


def entries():
    """What slapd has: people with a number each, and a group of some of them."""
    yield "dn: dc=truth\nobjectClass: dcObject\nobjectClass: organization\no: Truth\ndc: truth\n"
    for name in ("people", "groups"):
        yield f"dn: ou={name},dc=truth\nobjectClass: organizationalUnit\nou: {name}\n"
    for n in range(PEOPLE):
        yield (f"dn: uid=user{n},ou=people,dc=truth\nobjectClass: inetOrgPerson\nuid: user{n}\ncn: Fitter {n}\nsn: {n}\n"
               f"mail: user{n}@example.org\ntelephoneNumber: +49 30 {n}\n")
    names = "".join(f"memberUid: user{n * 7}\n" for n in range(FITTERS))
    yield f"dn: cn=fitters,ou=groups,dc=truth\nobjectClass: posixGroup\ncn: fitters\ngidNumber: 7\n{names}"


def slapd(lab, settings, own):
    """A directory of its own, filled before the server starts."""
    (own / "data").mkdir()
    config = write(own / "slapd.conf", lab.fill(SLAPD, settings))
    ldif = write(own / "entries.ldif", "\n".join(entries()))
    subprocess.run(["slapadd", "-q", "-f", config, "-l", ldif], check=True, capture_output=True, text=True)
    for path in (own / "data", *(own / "data").iterdir()):
        shutil.chown(path, own.stat().st_uid, own.stat().st_gid)
    return ["slapd", "-d", "0", "-h", f"ldap://127.0.0.1:{settings['port']}", "-f", config], {}, False


def ajp(lab, settings, own):
    """A Tomcat that speaks the protocol of mod_jk, with the servlet of apps/Reports.java and nothing else."""
    classes = lab.common(settings)["build"] / "ajp"
    if not classes.exists():
        subprocess.run(["javac", "-cp", "/usr/share/tomcat10/lib/servlet-api.jar", "-d", str(classes),
                        str(lab.dir / "apps/Reports.java")], check=True, capture_output=True, text=True)
    inside = own / "webapps/ROOT/WEB-INF"
    for path in (own / "conf", own / "temp", own / "work", own / "logs", inside):
        path.mkdir(parents=True)
    shutil.copytree(classes, inside / "classes")
    write(own / "conf/server.xml", lab.fill((Path(__file__).parent / "configs/tomcat-ajp.xml").read_text(), settings))
    write(own / "conf/web.xml", """<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0">
<servlet><servlet-name>reports</servlet-name><servlet-class>Reports</servlet-class><load-on-startup>1</load-on-startup></servlet>
<servlet-mapping><servlet-name>reports</servlet-name><url-pattern>/</url-pattern></servlet-mapping>
</web-app>
""")
    owned(lab, own)
    home = "/usr/share/tomcat10"
    return ["java", *extra(lab, settings), f"-Dcatalina.home={home}", f"-Dcatalina.base={own}", f"-Djava.io.tmpdir={own}/temp", "-cp",
            f"{home}/bin/bootstrap.jar:{home}/bin/tomcat-juli.jar", "org.apache.catalina.startup.Bootstrap", "start"], {}, False


def celery(lab, settings, own):
    """A worker of the tasks in apps/pecan_app.py, which listens nowhere: a file says that it is ready."""
    settings["socket_path"] = str(own / "ready")
    (own / "results").mkdir()
    shutil.chown(own / "results", own.stat().st_uid, own.stat().st_gid)
    flags = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=warning"]
    return ["python3", "-m", "celery", "-A", "pecan_app:celery", "worker", *flags, *extra(lab, settings)], {
        "HOME": str(own), "PYTHONPATH": str(lab.dir / "apps"), "READY": settings["socket_path"],
        "BROKER": lab.fill("{{redis.port}}", settings)}, False


def bus(lab, settings, own):
    return ["nats-server", "-a", "127.0.0.1", "-p", str(settings["port"]), *extra(lab, settings)], {}, False


def worker(lab, settings, own):
    """Who answers what is asked by NATS, and listens nowhere: a file says that it is ready."""
    settings["socket_path"] = str(own / "ready")
    command, env, privileged = go_program("nats_app.go")(lab, settings, own)
    return [*command, settings["socket_path"]], env, privileged


def pgpool2(lab, settings, own):
    """In front of the database that was started before it, with as many processes as its packaged configuration has."""
    text = lab.fill("""listen_addresses = '127.0.0.1'
port = {{port}}
socket_dir = '{{own}}'
pcp_listen_addresses = ''
pcp_socket_dir = '{{own}}'
pid_file_name = '{{own}}/pid'
logdir = '{{own}}'
memqcache_oiddir = '{{own}}/oid'
backend_clustering_mode = 'streaming_replication'
sr_check_period = 0
sr_check_user = 'truth'
backend_hostname0 = '127.0.0.1'
backend_port0 = {{postgres.port}}
backend_weight0 = 1
{{more=}}
""", settings)
    (own / "oid").mkdir()
    for name in ("pcp.conf", "pool_hba.conf"):
        write(own / name, "")
    for path in own.iterdir():
        shutil.chown(path, own.stat().st_uid, own.stat().st_gid)
    files = [("-f", write(own / "pgpool.conf", text)), ("-F", str(own / "pcp.conf")), ("-a", str(own / "pool_hba.conf"))]
    return ["pgpool", "-n", *(part for pair in files for part in pair)], {"HOME": str(own)}, False


def zookeeper(lab, settings, own):
    """One server, which does not wait for the disk."""
    text = lab.fill("tickTime=2000\ndataDir={{own}}/data\nclientPort={{port}}\nclientPortAddress=127.0.0.1\n"
                    "maxClientCnxns=0\nadmin.enableServer=false\n{{more=}}\n", settings)
    return ["java", "-Xmx256m", "-Dzookeeper.forceSync=no", "-cp", ":".join(ZOOKEEPER),
            "org.apache.zookeeper.server.ZooKeeperServerMain", write(own / "zoo.cfg", text)], {}, False


def tcpsrv(lab, settings, own):
    """An index of Xapian for others, with a process for each connection; nobody is sent away for being idle."""
    return ["xapian-tcpsrv", "--quiet", "--interface", "127.0.0.1", "--port", str(settings["port"]), "--idle-timeout", "3600000",
            str(reports(lab))], {}, False


def broker(place, port, more):
    """The configuration of a broker that keeps what it has below a directory."""
    return write(place / "mosquitto.conf", f"""listener {port} 127.0.0.1
allow_anonymous true
max_inflight_messages 0
max_queued_messages 0
log_dest stderr
log_type error
persistence true
persistence_location {place}/
{more}
""")


def mosquitto(lab, settings, own):
    """A broker that keeps the last words of 20,000 valves, told once for all cases."""
    made = lab.common(settings)["build"] / "mosquitto"
    if not made.exists():
        made.mkdir()
        port = free_port()
        with running(made, ["mosquitto", "-c", broker(made, port, "user root")], cwd=made):
            once_it_listens(lambda: socket.create_connection(("127.0.0.1", port)).close())
            subprocess.run(["/usr/bin/python3", str(lab.dir / "apps/paho_app.py"), "fill", str(port)], check=True,
                           capture_output=True, text=True)
    shutil.copy(made / "mosquitto.db", own)
    shutil.chown(own / "mosquitto.db", own.stat().st_uid, own.stat().st_gid)
    return ["mosquitto", "-c", broker(own, settings["port"], lab.fill("{{more=}}", settings))], {}, False


def valves(lab, settings, own):
    """What stands for valves that are asked by MQTT, and listens nowhere: a file says that it is ready."""
    settings["socket_path"] = str(own / "ready")
    return ["python3", str(lab.dir / "apps/paho_app.py"), "valves", lab.fill("{{mosquitto.port}}", settings),
            settings["socket_path"]], {"HOME": str(own)}, False


FOUND, LONG, VOCABULARY = 12_000, 40, 1500


def searching(place, port, settings, protocol=":mysql41", agent=""):
    """The configuration of Sphinx with an index that is written to while it runs, alone or with one at another server."""
    elsewhere = f" agent_persistent = 127.0.0.1:{agent}:reports\n" if agent else ""
    return write(place / "sphinx.conf", f"""index reports {{
 type = rt
 path = {place}/data/reports
 rt_field = text
 rt_attr_string = title
 rt_mem_limit = {settings.get('memory', '128M')}
}}
index plant {{
 type = distributed
 local = reports
{elsewhere}}}
searchd {{
 listen = 127.0.0.1:{port}{protocol}
 log = {place}/searchd.log
 pid_file = {place}/pid
 binlog_path =
 workers = threads
 persistent_connections_limit = 32
}}
""")


def statements():
    """What brings reports, a hundred at a time; low numbers of words are frequent, as in prose."""
    chance = random.Random(7)
    for first in range(1, FOUND, 100):
        rows = ", ".join("({0}, 'report {0} of hall {1}', '{2}')".format(n, n % 40, " ".join(
            f"word{int(VOCABULARY * chance.random() ** 3)}" for _ in range(LONG))) for n in range(first, first + 100))
        yield f"insert into reports (id, title, text) values {rows};\n"


def searchd(lab, settings, own):
    """Sphinx with an index of reports, filled once for all cases that give it as much memory; `agent` has others."""
    made = lab.common(settings)["build"] / f"searchd-{settings.get('memory', '128M')}"
    if not made.exists():
        (made / "data").mkdir(parents=True)
        port = free_port()
        with running(made, ["searchd", "--nodetach", "-c", searching(made, port, settings)], cwd=made):
            once_it_listens(lambda: socket.create_connection(("127.0.0.1", port)).close())
            subprocess.run(["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", str(port)], input="".join(statements()),
                           check=True, capture_output=True, text=True)
    shutil.copytree(made / "data", own / "data")
    config = searching(own, settings["port"], settings, settings.get("protocol", ":mysql41"), lab.fill("{{agent=}}", settings))
    owned(lab, own)
    return ["searchd", "--nodetach", "-c", config], {}, False


def gearmand(lab, settings, own):
    """A queue of jobs, in memory where `args` say nothing else."""
    return ["gearmand", "--listen=127.0.0.1", f"--port={settings['port']}", f"--log-file={own}/gearmand.log",
            f"--pid-file={own}/pid", "--config-file=/dev/null", *extra(lab, settings)], {}, False


def gearworker(lab, settings, own):
    """Processes that do jobs, and listen nowhere: a file says that they are there."""
    settings["socket_path"] = str(own / "ready")
    return ["php", "-n", *GEARMAN, str(lab.dir / "apps/gearman/worker.php"), lab.fill("{{gearmand.port}}", settings),
            settings["socket_path"], str(settings.get("processes", 16))], {}, False


def courier_broker(lab, settings, own):
    """ActiveMQ, which keeps nothing on a disk, and `most_pending` (0: all) of what a topic's reader has not yet."""
    return courier(lab, settings, "broker", str(settings["port"]), str(settings.get("most_pending", 0)))


def who_reads(lab, settings, own):
    """Who answers or writes down what comes by ActiveMQ, and listens nowhere: a file says that it is there."""
    settings["socket_path"] = str(own / "ready")
    does, *more = extra(lab, settings)
    return courier(lab, settings, does, lab.fill("{{broker.port}}", settings), settings["socket_path"], *more)


def imapd(lab, settings, own):
    """All its processes are of one user, and the mailbox is a directory with a file for each letter."""
    for name in ("cur", "new", "tmp"):
        (own / "mail" / name).mkdir(parents=True)
    for n in range(settings.get("letters", LETTERS)):
        order = 1000 + n
        write(own / f"mail/cur/{1700000000 + n}.M{n}P1.plant:2,{'' if n % 8 == 0 else 'S'}", (
            f"From: Office <office@example.org>\nTo: Fitter <fitter@example.org>\nSubject: order {order}\n"
            f"Message-ID: <{n}@example.org>\nDate: Fri, 17 Nov 2023 10:15:00 +0000\n\n"
            f"The valve of order {order} is to be fitted.\n"
            + "It opens and shuts as the one before, and its seal is new.\n" * 60))
    owned(lab, own)
    account = pwd.getpwuid(own.stat().st_uid)
    settings |= {"who": account.pw_name, "whose": grp.getgrgid(own.stat().st_gid).gr_name}
    return ["dovecot", "-F", "-c", write(own / "dovecot.conf", lab.fill(DOVECOT, settings))], {"HOME": str(own)}, False


def fbserver(lab, settings, own):
    """Firebird with a database that knows its own users; the directory is its root, with the package's parts in it."""
    for part in ("plugins", "intl", "plugins.conf"):
        (own / part).symlink_to(f"{FIREBIRD}/{part}")
    for name in ("lock", "tmp"):
        (own / name).mkdir()
    write(own / "firebird.conf", f"RemoteBindAddress = 127.0.0.1\nRemoteServicePort = {settings['port']}\nIpcName = {own}\n"
                                 "AuthServer = Srp\nUserManager = Srp\n")
    write(own / "databases.conf", f"plant = {own}/plant.fdb\n{{\n  SecurityDatabase = plant\n}}\n")
    tables = write(own / "tables.sql", lab.fill(FIREBIRD_TABLES, settings))
    env = {"HOME": str(own), "FIREBIRD": str(own), "FIREBIRD_TMP": f"{own}/tmp", "FIREBIRD_LOCK": f"{own}/lock"}
    owned(lab, own)
    subprocess.run(["isql-fb", "-q", "-bail", "-i", tables], check=True, capture_output=True, text=True, cwd=own,
                   env=os.environ | env, **owner(lab, settings, own))
    return ["/usr/sbin/firebird"], env, False


def rabbit(lab, settings, own):
    """A node of RabbitMQ that speaks AMQP and nothing else, on one of its threads."""
    command, env = node(own, settings["port"], "")
    write(own / "rabbitmq.conf", f"listeners.tcp.local = 127.0.0.1:{settings['port']}\nlog.console = false\n"
                                 "log.file = rabbit.log\nlog.file.level = warning\n")
    write(own / "plugins", "[].\n")
    owned(lab, own)
    return command, env, False


def printer(lab, settings, own):
    """Who prints what is asked by RabbitMQ, and listens nowhere: a file says that it is ready."""
    settings["socket_path"] = str(own / "ready")
    command, env, privileged = go_program("amqp_app.go")(lab, settings, own)
    return [*command, settings["socket_path"]], env, privileged


COMMANDS = {"postgres": postgres, "pgbouncer": pgbouncer, "mariadb": mariadb, "redis": redis, "memcached": memcached,
            "slapd": slapd, "ajp": ajp, "celery": celery, "bus": bus, "worker": worker, "pgpool2": pgpool2,
            "zookeeper": zookeeper, "tcpsrv": tcpsrv, "mosquitto": mosquitto, "valves": valves, "searchd": searchd,
            "gearmand": gearmand, "gearworker": gearworker, "broker": courier_broker, "courier": who_reads,
            "imapd": imapd, "fbserver": fbserver, "rabbit": rabbit, "printer": printer,
            "plant": threaded("plant_app")}
