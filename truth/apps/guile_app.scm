;; A server on Guile's own (web server) with one habit: guile_app.scm PORT HABIT

(use-modules (web server) (web request) (web response) (web uri)
             (sxml simple) (ice-9 match) (srfi srfi-19))

(define port (string->number (cadr (command-line))))
(define habit (string->symbol (caddr (command-line))))

(define (text body)
  (values '((content-type . (text/plain))) body))

(define (html tree)
  (values '((content-type . (text/html)))
          (lambda (out) (sxml->xml tree out))))

;; ---- pages of Scheme ----

(define page-file (string-append (getcwd) "/page.scm"))
(define (fresh-page)
  (primitive-load page-file))
(define known-page #f)

(define (page-each-time request body)
  (html ((fresh-page) "hall seven")))

(define (page-kept request body)
  (unless known-page (set! known-page (fresh-page)))
  (html (known-page "hall seven")))

;; ---- a log of requests ----

(define (open-log . buffer)
  (let ((log (open-file "access.log" "a")))
    (apply setvbuf log buffer)
    log))

(define log #f)

(define (logged request body)
  (let ((now (current-time)))
    (for-each (lambda (header)
                (display (car header) log)
                (display "=" log)
                (write (cdr header) log)
                (display " " log))
              (request-headers request))
    (for-each (lambda (part) (display part log) (display " " log))
              (list (time-second now) (time-nanosecond now) (request-method request) (uri-path (request-uri request))
                    (car (request-version request)) (cdr (request-version request)) 200))
    (newline log))
  (text "valve 7 is open"))

;; ---- readings kept in memory ----

(define readings (make-hash-table))

(define (fill-readings! count)
  (let loop ((n 0))
    (when (< n count)
      (hashv-set! readings n (list n (number->string n) (vector n (* n 7) (string-append "hall " (number->string (modulo n 90))))))
      (loop (1+ n)))))

(define (last-readings request body)
  (let* ((first (random 39960))
         (rows (map (lambda (n)
                      (match (hashv-ref readings (+ first n))
                        ((number name #(_ pressure hall))
                         (string-append name ": " (number->string pressure) " in " hall))))
                    (iota 40))))
    (text (string-join rows "\n"))))

(define handler
  (case habit
    ((page-each-time) page-each-time)
    ((page-kept) page-kept)
    ((log-in-pieces) (set! log (open-log 'none)) logged)
    ((log) (set! log (open-log 'block 65536)) logged)
    ((readings) (fill-readings! 40000) last-readings)
    (else (error "no such habit" habit))))

(run-server handler 'http `(#:port ,port #:addr ,INADDR_LOOPBACK))
