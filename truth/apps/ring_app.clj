;; A server on Ring's adapter for Jetty with one habit, given by name: PORT HABIT [SERVICE_PORT].
(ns ring-app
  (:require [clojure.core.async :refer [<!! go thread]]
            [clojure.string :as string]
            [ring.adapter.jetty :refer [run-jetty]])
  (:import [java.net URI]
           [java.net.http HttpClient HttpRequest HttpResponse$BodyHandlers]
           [java.time LocalDate]
           [java.time.format DateTimeFormatter])
  (:gen-class))

(def text (apply str (repeat 1024 \x)))
(def days 200)
(def threads 64)

;; ---- a service that knows what is in stock ----

(def service-port (promise))
(def client (delay (HttpClient/newHttpClient)))
(def question
  (delay (.build (HttpRequest/newBuilder (URI/create (str "http://127.0.0.1:" @service-port "/"))))))

(defn in-stock []
  (.body (.send ^HttpClient @client ^HttpRequest @question (HttpResponse$BodyHandlers/ofString))))

;; Go blocks share eight threads, which are not for calls that wait.
(defn stock-in-go-block [] (<!! (go (in-stock))))

(defn stock-in-thread [] (<!! (thread (in-stock))))

;; ---- a calendar ----

(def first-day (LocalDate/of 2024 1 1))
(def form (DateTimeFormatter/ofPattern "dd.MM.yyyy"))

(defn day-by-reflection [day number]
  (.format (.plusDays day number) form))

(defn day-by-type [^LocalDate day ^long number]
  (.format (.plusDays day number) form))

(defn calendar [written]
  (string/join "\n" (map #(written first-day %) (range days))))

;; ---- a discount, which the shop's people write themselves ----

(def rule "(fn [pieces price] (cond (> pieces 100) (* price 8/10) (> pieces 10) (* price 9/10) :else price))")

(defn discount-evaluated [] (str "you pay " ((eval (read-string rule)) 12 200)))

(def discount (delay (eval (read-string rule))))

(defn discount-kept [] (str "you pay " (@discount 12 200)))

(def pages
  {"plain" (fn [] text)
   "stock-in-go-block" stock-in-go-block
   "stock-in-thread" stock-in-thread
   "dates-by-reflection" #(calendar day-by-reflection)
   "dates-by-type" #(calendar day-by-type)
   "rule-evaluated" discount-evaluated
   "rule-kept" discount-kept})

(defn -main [port habit & [service]]
  (deliver service-port service)
  (let [page (pages habit)]
    (run-jetty (fn [_] {:status 200 :headers {"Content-Type" "text/plain"} :body (page)})
               {:host "127.0.0.1" :port (parse-long port) :max-threads threads})))
