# A Dancer2 application with one habit, named by $HABIT; sessions and logs go into the server's own directory, $OWN.
package Valves;
use strict;
use warnings;
use Dancer2;

my $habit = $ENV{HABIT};
my $body = "x" x 1024;
my @cart = map { { id => $_, name => "valve $_", price => $_ * 3, tags => ["inlet", "steel"] } } 1 .. 40;

set charset => "UTF-8";
set content_type => "text/plain";
set startup_info => 0;

if ($habit =~ /^log-/) {
    set engines => { logger => { File => { log_dir => $ENV{OWN}, file_name => "app.log" } } };
    set log => $habit eq "log-debug" ? "core" : "warning";
    set logger => "File";
}
if ($habit =~ /^cart-/) {
    set engines => { session => { YAML => { session_dir => "$ENV{OWN}/sessions" } } };
    set session => $habit eq "cart-in-file" ? "YAML" : "Simple";
}

sub known { debug "looking for $_" for 1 .. 5; $body }

# What is in the cart belongs to the session, and is written with it.
sub bought { session cart => \@cart; session last => time; $body }

get "/" => $habit =~ /^log-/ ? \&known : $habit =~ /^cart-/ ? \&bought : sub { $body };

to_app;
