package nginxperl;

# Pages of the module for Perl in nginx; which one is asked, the configuration says.
use strict;
use warnings;
use IO::Socket::INET;
use nginx;

my $body = "x" x 1024;
my $service;

sub send_text {
    my ($r, $text) = @_;
    $r->send_http_header("text/plain");
    $r->print($text) unless $r->header_only;
    return OK;
}

sub plain { send_text($_[0], $body) }

# ---- stock, which another system counts ----

sub stock {
    my $r = shift;
    my $port = $r->variable("service");
    $service //= IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) // die "service: $!";
    $service->syswrite("GET /bytes/64 HTTP/1.1\r\nHost: service\r\n\r\n");
    $service->sysread(my $answer, 4096);
    return send_text($r, $body);
}

# ---- which device asks, by what it says of itself ----

my @makes = qw(Nokia Motorola Siemens Ericsson Alcatel Sagem Panasonic Sharp Philips Sanyo Kyocera Huawei);
my @devices = map { my $make = $_; map { "\\b$make\[ /-]?(?:model )?$_\\d*(?:[ ;/]|\$)" } 10 .. 34 } @makes;
my ($any) = map { qr/$_/i } join "|", @devices;

sub device_of_list {
    my $said = shift;
    for my $device (@devices) {
        return "phone" if $said =~ /$device/i;
    }
    return "desk";
}

sub device_at_once { $_[0] =~ $any ? "phone" : "desk" }

sub asked { $_[0]->header_in("User-Agent") // "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0" }

sub device_listed { send_text($_[0], device_of_list(asked($_[0])) . " $body") }

sub device_kept { send_text($_[0], device_at_once(asked($_[0])) . " $body") }

# ---- readings of meters, some of which have none yet ----

my @meters = map { { name => "meter $_", bar => $_ % 3 ? undef : $_ / 10 } } 1 .. 60;

sub meters {
    my $r = shift;
    return send_text($r, join "", map { "$_->{name}: $_->{bar} bar\n" } @meters);
}

sub meters_known {
    my $r = shift;
    return send_text($r, join "", map { "$_->{name}: " . ($_->{bar} // "") . " bar\n" } @meters);
}

1;
