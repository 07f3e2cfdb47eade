// A plant's office that talks to others by RabbitMQ, with one habit: amqp_app PORT HABIT BROKER_PORT.
// The same program prints labels for it: amqp_app PORT worker BROKER_PORT DELAY_MS PREFETCH JOBS_AT_ONCE READY_FILE.
package main

import (
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/streadway/amqp"
)

const (
	callers     = 16
	linesOrder  = 12
	labels      = "labels"
	orders      = "orders"
	answersHere = "amq.rabbitmq.reply-to"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func connect(port string) *amqp.Connection {
	connection, err := amqp.Dial("amqp://guest:guest@127.0.0.1:" + port + "/")
	check(err)
	return connection
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func declare(channel *amqp.Channel) {
	_, err := channel.QueueDeclare(labels, false, false, false, false, nil)
	check(err)
	// Who takes orders in sees the latest only.
	_, err = channel.QueueDeclare(orders, false, false, false, false, amqp.Table{"x-max-length": int32(1000)})
	check(err)
}

// ---- who asks: a channel of one connection, for one request at a time ----

type caller struct {
	*amqp.Channel
	answers  <-chan amqp.Delivery
	confirms <-chan amqp.Confirmation
}

func newCaller(connection *amqp.Connection) *caller {
	channel, err := connection.Channel()
	check(err)
	answers, err := channel.Consume(answersHere, "", true, false, false, false, nil)
	check(err)
	check(channel.Confirm(false))
	return &caller{channel, answers, channel.NotifyPublish(make(chan amqp.Confirmation, 2*linesOrder))}
}

func (c *caller) publish(queue, replyTo, text string) {
	message := amqp.Publishing{ContentType: "text/plain", ReplyTo: replyTo, Body: []byte(text)}
	check(c.Publish("", queue, false, false, message))
}

func valve() string {
	return fmt.Sprintf("valve %d", 1+rand.Intn(20000))
}

// A label is printed by somebody else, who answers by RabbitMQ's own way for that.
func label(c *caller) string {
	c.publish(labels, answersHere, valve())
	<-c.confirms
	return string((<-c.answers).Body)
}

// The same with a queue for one answer, as the tutorial's client has it, which is started for one question.
func labelByQueue(c *caller) string {
	queue, err := c.QueueDeclare("", false, true, true, false, nil)
	check(err)
	answers, err := c.Consume(queue.Name, queue.Name, true, true, false, false, nil)
	check(err)
	c.publish(labels, queue.Name, valve())
	<-c.confirms
	answer := <-answers
	check(c.Cancel(queue.Name, false))
	_, err = c.QueueDelete(queue.Name, false, false, false)
	check(err)
	return string(answer.Body)
}

// Each line of an order is a message, and the order is in when RabbitMQ has confirmed all of them.
func orderByLine(c *caller) string {
	for line := 0; line < linesOrder; line++ {
		c.publish(orders, "", valve())
		<-c.confirms
	}
	return "ordered"
}

func orderAtOnce(c *caller) string {
	for line := 0; line < linesOrder; line++ {
		c.publish(orders, "", valve())
	}
	for line := 0; line < linesOrder; line++ {
		<-c.confirms
	}
	return "ordered"
}

var habits = map[string]func(*caller) string{
	"label": label, "label-by-queue": labelByQueue, "order-by-line": orderByLine, "order-at-once": orderAtOnce,
}

func serve(port, habit, broker string) {
	connection := connect(broker)
	free := make(chan *caller, callers)
	for n := 0; n < callers; n++ {
		c := newCaller(connection)
		if n == 0 {
			declare(c.Channel)
		}
		free <- c
	}
	work := habits[habit]
	check(http.ListenAndServe("127.0.0.1:"+port, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c := <-free
		text := work(c)
		free <- c
		fmt.Fprintln(w, text)
	})))
}

// ---- who prints ----

func printLabels(broker string, delay time.Duration, prefetch, atOnce int, ready string) {
	channel, err := connect(broker).Channel()
	check(err)
	declare(channel)
	check(channel.Qos(prefetch, 0, false))
	jobs, err := channel.Consume(labels, "", false, false, false, false, nil)
	check(err)
	print := func() {
		for job := range jobs {
			time.Sleep(delay)
			printed := amqp.Publishing{Body: append([]byte("a label for "), job.Body...)}
			check(channel.Publish("", job.ReplyTo, false, false, printed))
			check(job.Ack(false))
		}
		os.Exit(1)
	}
	for n := 0; n < atOnce; n++ {
		go print()
	}
	check(os.WriteFile(ready, nil, 0o600))
	select {}
}

func main() {
	port, habit, broker, rest := os.Args[1], os.Args[2], os.Args[3], os.Args[4:]
	if habit == "worker" {
		printLabels(broker, time.Duration(number(rest[0]))*time.Millisecond, number(rest[1]), number(rest[2]), rest[3])
	}
	serve(port, habit, broker)
}
