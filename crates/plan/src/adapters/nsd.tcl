# The template that a NaviServer target has when the experiment gives none: static files from html/.
ns_section ns/parameters {
    ns_param home        {{home}}
    ns_param pidfile     {{root}}/nsd.pid
    ns_param logusec     false
}

ns_section ns/servers {
    ns_param s "prony"
}

ns_section ns/modules {
    ns_param nssock {{home}}/bin/nssock.so
}

ns_section ns/module/nssock {
    ns_param defaultserver  s
    ns_param address        {{address}}
    ns_param port           {{port}}
    ns_param driverthreads  {{workers}}
    ns_param reuseport      true
    ns_param backlog        4096
    ns_param keepwait       60
    ns_param maxinput       1MB
}

ns_section ns/module/nssock/servers {
    ns_param s {{address}}
}

ns_section ns/server/s {
    ns_param connsperthread 0
    ns_param minthreads     10
    ns_param maxthreads     10
    ns_param maxconnections 4096
}

ns_section ns/server/s/fastpath {
    ns_param pagedir        {{root}}/html
    ns_param directoryfile  index.html
}

ns_section ns/server/s/modules {
    ns_param nssock {{home}}/bin/nssock.so
}
