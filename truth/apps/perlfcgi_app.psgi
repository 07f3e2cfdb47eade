# A PSGI application for FastCGI with one habit, named by $HABIT; $SERVICE is the port of a service that it asks.
use strict;
use warnings;
use Fcntl ":flock";
use File::Temp;
use HTML::Template;
use IO::Socket::INET;
use Time::Piece;

my $habit = $ENV{HABIT};

# ---- a page of a form, whose template is long ----

my $fields = join "", map {
    qq{<TMPL_IF NAME="has_$_"><p><label for="f$_">Valve $_</label> <TMPL_VAR NAME="text_$_" ESCAPE=HTML></p><TMPL_ELSE><p>none</p></TMPL_IF>\n}
} 1 .. 80;
my $file = File::Temp->new(SUFFIX => ".tmpl");
print $file "<html><body>\n$fields</body></html>\n";
close $file;

sub form {
    my $page = HTML::Template->new(filename => "$file", die_on_bad_params => 0, @_);
    $page->param(has_7 => 1, text_7 => "open & shut");
    $page->output;
}

# ---- appointments by their time, which is a text ----

my @appointments = map { { what => "visit $_", at => sprintf("%02d Mar 2024 %02d:%02d", 1 + $_ * 7 % 28, $_ * 5 % 24, $_ * 11 % 60) } } 1 .. 30;

sub seconds { Time::Piece->strptime($_[0]{at}, "%d %b %Y %H:%M")->epoch }

sub listed { join "", map { "$_->{at} $_->{what}\n" } @_ }

sub sorted_by_text { listed(sort { seconds($a) <=> seconds($b) } @appointments) }

sub sorted_by_number { listed(map { $_->[1] } sort { $a->[0] <=> $b->[0] } map { [seconds($_), $_] } @appointments) }

# ---- visits, which are counted in a file that all processes share ----

sub price {
    my $service = our $kept //= IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $ENV{SERVICE}) // die "service: $!";
    $service->syswrite("GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n");
    $service->sysread(my $answer, 4096);
    (split /\r\n\r\n/, $answer)[1] // "";
}

sub page { sprintf "visit %d, price %s\n", @_ }

# The number is read, written again by one more, and nobody else's until the page is made.
sub counted_under_lock {
    open my $counter, "+>>", "visits" or die "visits: $!";
    flock $counter, LOCK_EX or die "visits: $!";
    seek $counter, 0, 0;
    my $visits = (<$counter> // 0) + 1;
    truncate $counter, 0;
    syswrite $counter, "$visits\n";
    page($visits, price());
}

# A mark for each visit, which the kernel puts behind the others.
sub counted_by_marks {
    open my $counter, ">>", "visits" or die "visits: $!";
    syswrite $counter, ".";
    page(-s $counter, price());
}

my %work = (
    "form-parsed-each-time" => sub { form() },
    "form" => sub { form(cache => 1) },
    "sorted-by-text" => \&sorted_by_text,
    "sorted" => \&sorted_by_number,
    "price-under-lock" => \&counted_under_lock,
    "price" => \&counted_by_marks,
);
my $work = $work{$habit} or die "no habit";

sub {
    my $body = $work->();
    [200, ["Content-Type" => "text/html", "Content-Length" => length $body], [$body]];
};
