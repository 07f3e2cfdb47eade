# A server on the httpd of Tcllib with one habit, given by name: tcl_app.tcl PORT HABIT DIRECTORY.
# It is one event loop, which answers in HTTP/1.0 and closes the connection.

package require httpd
package require sqlite3

lassign $argv port habit directory
set valve_count 150000
set visits_kept 20000

# The valves, in a file of their own.
proc fill {} {
    db eval {
        create table valves (id integer primary key, name text, note text);
        with recursive n (id) as (values (1) union all select id + 1 from n where id < cast($::valve_count as int))
            insert into valves select id, 'valve ' || id, 'open and shut open and shut open and shut' from n
    }
}

# A copy of all valves, each second.
proc copy_all {} {
    after 1000 copy_all
    db backup $::directory/copy.db
}

# The last visits, as a list of pairs.
proc note_visit {path} {
    lappend ::visits [list [clock seconds] $path]
    if {[llength $::visits] > 2 * $::visits_kept} {
        set ::visits [lrange $::visits end-[expr {$::visits_kept - 1}] end]
    }
}

namespace eval page {
    proc plain {} { string repeat x 1024 }

    proc valve {} { db onecolumn {select note from valves where id = 7} }

    proc dated {} { clock format [clock seconds] -format {%A, %d. %B %Y} }

    proc dated-by-a-program {} { exec date {+%A, %d. %B %Y} }

    proc visits {} {
        note_visit /valves/7
        if {[llength $::visits] < 2} { return none }
        lindex $::visits end
    }

    # What is compared with a text must become one: all of the list.
    proc visits-compared {} {
        note_visit /valves/7
        if {$::visits eq "none"} { return none }
        lindex $::visits end
    }
}

clay::define ::answer {
    method content {} {
        my reply set Content-Type text/plain
        my puts [::page::$::habit]
    }
}

clay::define ::shop {
    superclass ::httpd::server
    method Dispatch_Local data {
        dict set data mixin reply ::answer
        return $data
    }
}

switch -glob $habit {
    valve* {
        sqlite3 db $directory/valves.db
        fill
        if {$habit eq "valve-copied"} { after 1000 copy_all }
        set habit valve
    }
    visits* {
        set visits {}
        for {set n 0} {$n < $visits_kept} {incr n} { lappend visits [list $n /valves/$n] }
    }
}

shop create server port $port myaddr 127.0.0.1
vwait forever
