;;; A server on Hunchentoot with one habit, given by name: hunchentoot PORT HABIT.
(require :asdf)
(asdf:load-systems :hunchentoot :cl-ppcre)

(defpackage :shop (:use :cl))
(in-package :shop)

(defparameter *body* (make-string 1024 :initial-element #\x))

;;; What a page's address may look like; the last one fits.
(defparameter *patterns*
  (append (loop for n below 20 collect (format nil "^/(valves|pumps)-~d/(\\d+)/(open|shut|list)(/[a-z]+)*$" n)) '("^/$")))
(defparameter *scanners* (mapcar #'cl-ppcre:create-scanner *patterns*))

;;; Given as a text that the compiler does not see, a pattern is compiled by each call of SCAN.
(defun page-by (patterns)
  (if (some (lambda (pattern) (cl-ppcre:scan pattern (hunchentoot:script-name*))) patterns) *body* ""))

(defun page (habit)
  (cond ((equal habit "patterns-each-time") (lambda () (page-by *patterns*)))
        ((equal habit "patterns-kept") (lambda () (page-by *scanners*)))
        (t (lambda () *body*))))

;;; A file that is given by name is opened, and closed again, for each of its lines.
(defun log-of (habit)
  (cond ((equal habit "log-by-name") "access.log")
        ((equal habit "log-kept-open")
         (open "access.log" :direction :output :if-exists :append :if-does-not-exist :create :external-format :utf-8))))

(defun main ()
  (destructuring-bind (port habit) (rest sb-ext:*posix-argv*)
    (let ((page (page habit)))
      (setf hunchentoot:*dispatch-table*
            (list (lambda (request)
                    (declare (ignore request))
                    (lambda () (setf (hunchentoot:content-type*) "text/plain") (funcall page))))))
    (hunchentoot:start (make-instance 'hunchentoot:easy-acceptor
                                      :port (parse-integer port) :address "127.0.0.1"
                                      :access-log-destination (log-of habit) :message-log-destination nil))
    (loop (sleep 3600))))
