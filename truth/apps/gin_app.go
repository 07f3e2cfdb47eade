// An application with the Gin framework and one habit, given by name: gin_app PORT HABIT; its templates lie beside it.
package main

import (
	"compress/gzip"
	"io"
	"log"
	"math/rand"
	"net/http"
	"os"
	"runtime"
	"strings"

	"github.com/gin-gonic/gin"
)

var (
	body    = strings.Repeat("x", 1024)
	picture = make([]byte, 96<<10)
	orders  = make(chan string)
)

// zipped passes everything through gzip, whatever it is.
func zipped(c *gin.Context) {
	c.Header("Content-Encoding", "gzip")
	w := gzip.NewWriter(c.Writer)
	defer w.Close()
	c.Set("writer", w)
	c.Next()
}

func plain(c *gin.Context) { c.String(http.StatusOK, body) }

// show sends a picture that is compressed already.
func show(c *gin.Context) {
	c.Header("Content-Type", "image/jpeg")
	c.Status(http.StatusOK)
	if w, zips := c.Get("writer"); zips {
		w.(io.Writer).Write(picture)
		return
	}
	c.Writer.Write(picture)
}

func list(c *gin.Context) {
	c.HTML(http.StatusOK, "gin_list.html", gin.H{"title": "Valves", "names": []string{"inlet", "outlet", "relief"}})
}

// look asks again and again whether an order has come.
func look() {
	for {
		select {
		case <-orders:
		default:
			runtime.Gosched()
		}
	}
}

// wait sleeps until one has come.
func wait() {
	for range orders {
	}
}

func main() {
	rand.New(rand.NewSource(7)).Read(picture)
	// Debug is the framework's default: templates are parsed anew for each page.
	if os.Args[2] == "debug-mode" {
		gin.SetMode(gin.DebugMode)
	} else {
		gin.SetMode(gin.ReleaseMode)
	}
	gin.DefaultWriter = io.Discard
	engine := gin.New()
	page := plain
	switch os.Args[2] {
	case "debug-mode", "release-mode":
		engine.LoadHTMLGlob(os.Args[3])
		page = list
	case "zipped-picture":
		engine.Use(zipped)
		page = show
	case "picture":
		page = show
	case "looks-for-orders":
		go look()
	case "waits-for-orders":
		go wait()
	}
	engine.GET("/", page)
	log.Fatal(engine.Run("127.0.0.1:" + os.Args[1]))
}
