# A Catalyst application with one habit, named by $HABIT; $DATABASE is the port of PostgreSQL.
package Shop;
use Moose;
use Catalyst::Runtime;
use Catalyst;

extends "Catalyst";

my ($home) = __FILE__ =~ m{(.*)/lib/};

__PACKAGE__->config(name => "Shop", home => $home, root => "$home/root", encoding => "UTF-8",
    disable_component_resolution_regex_fallback => 1);
__PACKAGE__->setup;

1;
