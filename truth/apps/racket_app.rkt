#lang racket/base
;; A server on Racket's web server with one habit, given by name: PORT HABIT [DATABASE_PORT].
(require db
         racket/contract
         web-server/http
         web-server/servlet-dispatch
         web-server/web-server)

(define text (make-bytes 1024 120))
(define sessions-kept 20000)
(define valves 20000)
(define connections-kept 16)
(define lines 100)

(define (answer body)
  (response/full 200 #"OK" (current-seconds) #"text/plain" '() (list body)))

;; ---- sessions, of which a request wants one ----

(define names (for/vector ([n sessions-kept]) (format "session-~a" n)))
(define sessions-in-list (for/list ([name names] [n (in-naturals)]) (cons name (format "user ~a" n))))
(define sessions-in-table (make-hash sessions-in-list))
(define asked 0)

(define (any-name)
  (set! asked (add1 asked))
  (vector-ref names (modulo (* asked 7919) sessions-kept)))

(define (user-in-list) (string->bytes/utf-8 (cdr (assoc (any-name) sessions-in-list))))
(define (user-in-table) (string->bytes/utf-8 (hash-ref sessions-in-table (any-name))))

;; ---- a bill, for each line of which a price is looked up ----

(define prices (for/list ([n 300]) (* 10 n)))

(define/contract (price-by-contract prices n)
  (-> (listof exact-nonnegative-integer?) exact-nonnegative-integer? exact-nonnegative-integer?)
  (list-ref prices n))

(define (bill price-of)
  (define total (for/sum ([n lines]) (price-of prices n)))
  (string->bytes/utf-8 (format "you pay ~a" total)))

(define (bill-by-contract) (bill price-by-contract))
(define (bill-by-trust) (bill list-ref))

;; ---- a database ----

(define (connections port)
  (virtual-connection
   (connection-pool #:max-connections connections-kept #:max-idle-connections connections-kept
                    (lambda ()
                      (postgresql-connect #:user "truth" #:database "postgres" #:server "127.0.0.1" #:port port)))))

(define ((valve-at-random database))
  (string->bytes/utf-8 (query-value database "select name from valves order by random() limit 1")))

(define ((valve-by-number database))
  (string->bytes/utf-8 (query-value database "select name from valves where id = $1" (add1 (random valves)))))

(define (page habit database)
  (case habit
    [("user-in-list") user-in-list]
    [("user-in-table") user-in-table]
    [("bill-by-contract") bill-by-contract]
    [("bill-by-trust") bill-by-trust]
    [("valve-at-random") (valve-at-random database)]
    [("valve-by-number") (valve-by-number database)]
    [else (lambda () text)]))

(module+ main
  (define given (current-command-line-arguments))
  (define database (and (> (vector-length given) 2) (connections (string->number (vector-ref given 2)))))
  (define body (page (vector-ref given 1) database))
  (void (serve #:dispatch (dispatch/servlet (lambda (request) (answer (body))))
               #:listen-ip "127.0.0.1"
               #:port (string->number (vector-ref given 0))))
  (sync never-evt))
