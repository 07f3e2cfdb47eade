# A PSGI application with one habit, named by $HABIT; $BACKEND is the port of the service that it asks.
use strict;
use warnings;
use IO::Socket::INET;

my $body = "x" x 1024;
my $ask = "GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n";
# Every way to divide the name into groups is tried before the domain is found to be another; Perl remembers none of them.
my $loose = qr/^((?:[a-z0-9]+\.?)+)@[a-z]+\.com$/;
my $strict = qr/^([a-z0-9]+(?:\.[a-z0-9]+)*+)@[a-z]+\.com$/;
my $address = ("valve" x 3) . '@example.org';
my $kept;

sub service { IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $ENV{BACKEND}) or die "service: $!" }

sub ask {
    my $connection = shift;
    $connection->syswrite($ask);
    $connection->sysread(my $answer, 4096);
    $body;
}

my %work = (
    "plain" => sub { $body },
    "kept" => sub { ask($kept //= service()) },
    "reconnect" => sub { my $new = service(); my $said = ask($new); close $new; $said },
    "loose-pattern" => sub { $address =~ $loose; $body },
    "strict-pattern" => sub { $address =~ $strict; $body },
);
my $work = $work{$ENV{HABIT}} or die "no habit";

sub { [200, ["Content-Type" => "text/plain", "Content-Length" => length($body)], [$work->()]] };
