vcl 4.1;
# A healthy cache: everything is kept for an hour.
backend default { .host = "127.0.0.1"; .port = "{{origin.port}}"; }
sub vcl_recv { {{recv=}} }
sub vcl_backend_response { set beresp.ttl = {{ttl=1h}}; {{response=}} }
{{more=}}
