// Pumps by the mapper gorm before PostgreSQL, with one habit, given by name: gorm_app PORT HABIT DATABASE_PORT.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/jinzhu/gorm"
	_ "github.com/jinzhu/gorm/dialects/postgres"
)

const (
	pumps, connections = 2000, 16
	// The pump whose page is asked for: it alone has readings.
	shown = 7
)

// Pump has parts, and readings.
type Pump struct {
	ID       uint
	Name     string
	Runs     int
	Parts    []Part
	Readings []Reading
}

// Part is one of 20 that each pump has.
type Part struct {
	ID, PumpID uint
	Name       string
}

// Reading is one of some hundred.
type Reading struct {
	ID, PumpID uint
	Bar        float64
	Note       string
}

// Task is kept when it is done: its time of deletion says so.
type Task struct {
	ID, PumpID uint
	What       string
	DeletedAt  *time.Time
}

// Each table has the indexes that it needs, but for the one on open tasks, which is a habit's.
var tables = []string{
	"create table pumps (id serial primary key, name text, runs int) with (fillfactor = 50)",
	"create table parts (id serial primary key, pump_id int, name text) with (fillfactor = 50)",
	"create table readings (id serial primary key, pump_id int, bar float, note text)",
	"create table tasks (id serial primary key, pump_id int, what text, deleted_at timestamptz)",
	fmt.Sprintf("insert into pumps select n, 'pump ' || n, 0 from generate_series(1, %d) n", pumps),
	fmt.Sprintf("insert into parts select n, 1 + n %% %d, 'part ' || n from generate_series(1, %d) n", pumps, 20*pumps),
	fmt.Sprintf("insert into readings select n, %d, n %% 17, 'open and shut' from generate_series(1, 500) n", shown),
	"insert into tasks select n, n % 10, 'oil it', case when n % 1000 < 10 then null else now() end from generate_series(1, 50000) n",
	"create index on parts (pump_id)",
	"create index on readings (pump_id)",
	"create index on tasks (pump_id)",
	"vacuum analyze",
}

var (
	db    *gorm.DB
	asked uint64
)

// header shows a pump's name.
func header(db *gorm.DB) (string, error) {
	var pump Pump
	err := db.First(&pump, shown).Error
	return pump.Name, err
}

// run counts a run of some pump, whose parts it shows.
func run(db *gorm.DB) (string, error) {
	var pump Pump
	if err := db.Preload("Parts").First(&pump, 1+atomic.AddUint64(&asked, 1)%pumps).Error; err != nil {
		return "", err
	}
	pump.Runs++
	err := db.Save(&pump).Error
	return fmt.Sprintf("%s ran %d times with %d parts", pump.Name, pump.Runs, len(pump.Parts)), err
}

// open lists the open tasks of a pump.
func open(db *gorm.DB) (string, error) {
	var tasks []Task
	err := db.Where("pump_id = ?", shown).Find(&tasks).Error
	return fmt.Sprintf("%d tasks are open", len(tasks)), err
}

func page(habit string) (string, error) {
	switch habit {
	case "all-preloaded":
		return header(db.Set("gorm:auto_preload", true))
	case "parts-saved":
		return run(db)
	case "run-saved":
		return run(db.Set("gorm:save_associations", false))
	case "open", "open-indexed":
		return open(db)
	}
	return header(db)
}

func main() {
	habit := os.Args[2]
	var err error
	if db, err = gorm.Open("postgres", "host=127.0.0.1 user=truth dbname=postgres sslmode=disable port="+os.Args[3]); err != nil {
		log.Fatal(err)
	}
	db.DB().SetMaxOpenConns(connections)
	db.DB().SetMaxIdleConns(connections)
	if habit == "open-indexed" {
		tables = append(tables, "create index on tasks (pump_id) where deleted_at is null")
	}
	for _, statement := range tables {
		if err := db.Exec(statement).Error; err != nil {
			log.Fatal(err)
		}
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		text, err := page(habit)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, text)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
