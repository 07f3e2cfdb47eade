#!/usr/bin/env perl
# A Mojolicious application with one habit, named by $HABIT; $STORE is the port of a Redis server, $LISTEN hypnotoad's port.
use Mojolicious::Lite -signatures;
use Mojo::Template;
use Redis;

my $body = "x" x 1024;
my $text = "<table>\n% for my \$row (\@\$rows) {\n<tr><td><%= \$row->{id} %></td><td><%= \$row->{name} %></td></tr>\n% }\n</table>\n";
my $rows = [map { {id => $_, name => "valve <$_>"} } 1 .. 20];
my $page = Mojo::Template->new(vars => 1, auto_escape => 1)->render($text, {rows => $rows});
my $kept;

sub store { Redis->new(server => "127.0.0.1:$ENV{STORE}", encoding => undef) }
sub count ($store) { $store->incr("requests"); $body }

my %work = (
    "plain" => sub { $body },
    "kept" => sub { count($kept //= store()) },
    "reconnect" => sub { my $new = store(); my $said = count($new); $new->quit; $said },
    "template-each-time" => sub { Mojo::Template->new(vars => 1, auto_escape => 1)->render($text, {rows => $rows}) },
    "page-made-once" => sub { $page },
);
my $work = $work{$ENV{HABIT}} or die "no habit";

app->log->level("error");
app->config(hypnotoad => {listen => ["http://127.0.0.1:$ENV{LISTEN}"], workers => $ENV{WORKERS} // 2, spare => 0, requests => 1_000_000,
    clients => 1000, pid_file => $ENV{PID}, keep_alive_timeout => 60});
get "/" => sub ($c) { $c->render(data => $work->(), format => "txt") };
app->start;
