;; A page of a hall's valves, as a designer left it: a program that gives the page.

(define (row number)
  `(tr (td ,(number->string number))
       (td ,(string-append "valve " (number->string number)))
       (td ,(if (even? number) "open" "shut"))))

(define (steps total)
  (let loop ((rest total) (found '()))
    (if (zero? rest)
        found
        (loop (1- rest) (cons `(li "step " ,(number->string rest)) found)))))

(define (foot . words)
  `(p (@ (class "foot")) ,@(map (lambda (word) `(em ,word " ")) words)))

(define-syntax-rule (framed name part ...)
  `(div (@ (class ,name)) ,part ...))

(define (page hall)
  `(html
    (head (title ,hall) (meta (@ (name "viewport") (content "width=device-width"))))
    (body
     ,(framed "head" `(h1 ,hall) `(p "Which valves are open, and who may turn them."))
     ,(framed "valves" `(table (tr (th "number") (th "valve") (th "state")) ,@(map row (iota 8 1))))
     ,(framed "steps" `(ol ,@(steps 4)))
     ,(foot "kept" "by" "the" "fitters"))))

page
