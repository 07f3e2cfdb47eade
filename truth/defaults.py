"""Servers with their distribution's own configuration, read from /etc when a case is run.

Replaced are ports, paths and what a machine of one core would have; logs, compression, limits and all else stay as shipped.
"""

import os
import re
import shutil
from pathlib import Path

# What must be there, and the Debian package that brings it.
NEEDS = {
    "nginx-default": ("/etc/nginx/sites-available/default", "nginx"),
    "nginx-php-default": ("/etc/nginx/snippets/fastcgi-php.conf", "nginx"),
    "apache-default": ("/etc/apache2/apache2.conf", "apache2"),
    "apache-php-default": ("/etc/apache2/apache2.conf", "apache2"),
    "haproxy-default": ("/etc/haproxy/haproxy.cfg", "haproxy"),
    "lighttpd-default": ("/etc/lighttpd/lighttpd.conf", "lighttpd"),
    "caddy-default": ("/etc/caddy/Caddyfile", "caddy"),
    "varnish-default": ("/etc/varnish/default.vcl", "varnish"),
    "uwsgi-default": ("uwsgi", "uwsgi-core uwsgi-plugin-python3"),
    "tomcat-default": ("/etc/tomcat10/server.xml", "tomcat10 default-jdk-headless"),
}


def replaced(text, *pairs):
    """The text with each pattern replaced; one that is not there is a configuration that this file does not know."""
    for pattern, new in pairs:
        text, count = re.subn(pattern, lambda _: str(new), text, flags=re.MULTILINE)
        if not count:
            raise OSError(f"the packaged configuration has no {pattern}")
    return text


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def nginx(lab, settings, own, php=False):
    (own / "log").mkdir()
    site = replaced(Path("/etc/nginx/sites-available/default").read_text(), (r"listen 80 default_server", f"listen 127.0.0.1:{settings['port']} default_server"),
                    (r"^\s*listen \[::\]:80.*$", ""), (r"root /var/www/html", f"root {lab.dir}/site"))
    if php:
        # The file has it as a comment.
        socket = lab.servers["php"]["socket_path"]
        location = f"location ~ \\.php$ {{ include snippets/fastcgi-php.conf; fastcgi_pass unix:{socket}; }}"
        site = replaced(site, (r"^\tserver_name _;", f"\tserver_name _;\n\t{location}"))
    shutil.copytree("/etc/nginx", own / "etc", ignore=shutil.ignore_patterns("sites-*", "modules-*"))
    write(own / "etc/sites-enabled/default", site)
    main = replaced(Path("/etc/nginx/nginx.conf").read_text(), (r"^worker_processes auto", "worker_processes 1"),
                    (r"^pid .*", f"pid {own}/nginx.pid;"), (r"/var/log/nginx", own / "log"),
                    (r"^include /etc/nginx/modules-enabled.*", ""), (r"/etc/nginx", own / "etc"))
    return ["nginx", "-p", str(own / "etc"), "-e", str(own / "start.log"), "-g", "daemon off;",
            "-c", write(own / "etc/nginx.conf", main)], {}, True


def nginx_php(lab, settings, own):
    return nginx(lab, settings, own, php=True)


def apache(lab, settings, own, php=False):
    etc = own / "etc"
    shutil.copytree("/etc/apache2", etc, symlinks=False)
    for name in ("run", "lock", "log"):
        (own / name).mkdir()
    write(etc / "ports.conf", f"Listen 127.0.0.1:{settings['port']}\n")
    for path in (etc / "sites-enabled").iterdir():
        write(path, replaced(path.read_text(), (r"\*:80", f"*:{settings['port']}"), (r"/var/www/html", lab.dir / "site")))
    main = replaced(Path(etc / "apache2.conf").read_text(), (r"<Directory /var/www/>", f"<Directory {lab.dir}/site>"))
    write(etc / "apache2.conf", main)
    if php:
        for module in ("proxy", "proxy_fcgi"):
            shutil.copy(etc / f"mods-available/{module}.load", etc / f"mods-enabled/{module}.load")
        text = Path("/etc/apache2/conf-available").glob("php*-fpm.conf")
        text = replaced(next(text).read_text(), (r"unix:/run/php/php[\d.]+-fpm.sock", f"unix:{lab.servers['php']['socket_path']}"))
        write(etc / "conf-enabled/php-fpm.conf", text)
    env = {"APACHE_CONFDIR": str(etc), "APACHE_RUN_USER": "www-data", "APACHE_RUN_GROUP": "www-data",
           "APACHE_PID_FILE": str(own / "run/pid"), "APACHE_RUN_DIR": str(own / "run"), "LANG": "C",
           "APACHE_LOCK_DIR": str(own / "lock"), "APACHE_LOG_DIR": str(own / "log")}
    return ["apache2", "-DFOREGROUND", "-d", str(etc), "-f", str(etc / "apache2.conf")], env, True


def apache_php(lab, settings, own):
    return apache(lab, settings, own, php=True)


def haproxy(lab, settings, own):
    text = replaced(Path("/etc/haproxy/haproxy.cfg").read_text(), (r"^\s*chroot .*", ""), (r"^\s*stats socket .*", ""),
                    (r"^\s*daemon\s*$", ""))
    if not os.path.exists("/dev/log"):
        text = replaced(text, (r"/dev/log", f"127.0.0.1:{lab.servers['log']['port']}"))
    text += (f"\nfrontend all\n\tbind 127.0.0.1:{settings['port']}\n\tdefault_backend origin\n"
             f"backend origin\n\tserver one 127.0.0.1:{lab.servers['origin']['port']}\n")
    return ["haproxy", "-db", "-f", write(own / "haproxy.cfg", text)], {}, True


def lighttpd(lab, settings, own):
    text = replaced(
        Path("/etc/lighttpd/lighttpd.conf").read_text(), (r'"/var/www/html"', f'"{lab.dir}/site"'),
        (r'"/var/cache/lighttpd/uploads"', f'"{own}"'), (r'"/var/log/lighttpd/error.log"', f'"{own}/error.log"'),
        (r'"/run/lighttpd.pid"', f'"{own}/pid"'), (r"^server.port .*", f'server.port = {settings["port"]}\nserver.bind = "127.0.0.1"'),
        (r"^include_shell .*use-ipv6.*", ""))
    return ["lighttpd", "-D", "-f", write(own / "lighttpd.conf", text)], {}, True


def caddy(lab, settings, own):
    text = replaced(Path("/etc/caddy/Caddyfile").read_text(), (r"^:80 ", f"http://127.0.0.1:{settings['port']} "),
                    (r"/usr/share/caddy", lab.dir / "site"))
    path = write(own / "Caddyfile", "{\n\tadmin off\n}\n" + text)
    return ["caddy", "run", "--config", path, "--adapter", "caddyfile"], {
        "HOME": str(own), "XDG_DATA_HOME": str(own), "XDG_CONFIG_HOME": str(own)}, False


def varnish(lab, settings, own):
    text = replaced(Path("/etc/varnish/default.vcl").read_text(), (r'"8080"', f'"{lab.servers["origin"]["port"]}"'))
    # The flags of the package's service, without its administration port.
    return ["varnishd", "-j", "none", "-F", "-n", str(own / "work"), "-a", f"127.0.0.1:{settings['port']}",
            "-f", write(own / "default.vcl", text), "-s", "malloc,256m"], {}, False


def tomcat(lab, settings, own):
    shutil.copytree("/etc/tomcat10", own / "conf")
    for name in ("webapps", "temp", "work", "logs"):
        (own / name).mkdir()
    text = replaced((own / "conf/server.xml").read_text(), (r'Connector port="8080"', f'Connector port="{settings["port"]}" address="127.0.0.1"'))
    write(own / "conf/server.xml", text)
    shutil.copytree(lab.dir / "site", own / "webapps/ROOT")
    # The package gives its files to a user of its own.
    for path in own.rglob("*"):
        os.chmod(path, 0o755 if path.is_dir() else 0o644)
        shutil.chown(path, own.stat().st_uid, own.stat().st_gid)
    home = "/usr/share/tomcat10"
    return ["java", "-Djava.awt.headless=true", f"-Dcatalina.home={home}", f"-Dcatalina.base={own}",
            f"-Djava.util.logging.config.file={own}/conf/logging.properties",
            "-Djava.util.logging.manager=org.apache.juli.ClassLoaderLogManager",
            f"-Djava.io.tmpdir={own}/temp", "-cp", f"{home}/bin/bootstrap.jar:{home}/bin/tomcat-juli.jar",
            "org.apache.catalina.startup.Bootstrap", "start"], {}, False


def php_fpm(lab, settings, own):
    """The package's pool, its socket in the case's directory."""
    etc = sorted(Path("/etc/php").glob("*/fpm"))[-1]
    pool = replaced((etc / "pool.d/www.conf").read_text(), (r"^listen = .*", f"listen = {settings['socket_path']}"))
    main = replaced((etc / "php-fpm.conf").read_text(), (r"^pid = .*", f"pid = {own}/pid"),
                    (r"^error_log = .*", f"error_log = {own}/error.log"), (r"^include=.*", f"include={own}/pool.conf"))
    write(own / "pool.conf", pool)
    return ["php-fpm", "-F", "-c", str(etc / "php.ini"), "-y", write(own / "php-fpm.conf", main)], {}, True


def uwsgi(lab, settings, own):
    return ["uwsgi", "--plugin", "python3", "--http-socket", f"127.0.0.1:{settings['port']}",
            "--wsgi-file", str(lab.dir / "apps" / settings["app"])], {}, False


def log_sink(lab, settings, own):
    """Where a system's log daemon would be: it reads and throws away."""
    program = ("import socket, sys\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
               "s.bind(('127.0.0.1', int(sys.argv[1])))\nwhile True: s.recv(65536)")
    return ["python3", "-c", program, str(settings["port"])], {}, False


COMMANDS = {
    "nginx-default": nginx, "nginx-php-default": nginx_php, "apache-default": apache, "apache-php-default": apache_php,
    "haproxy-default": haproxy, "lighttpd-default": lighttpd, "caddy-default": caddy, "varnish-default": varnish,
    "tomcat-default": tomcat, "php-fpm-default": php_fpm, "log-sink": log_sink,
    "uwsgi-default": uwsgi,
}
