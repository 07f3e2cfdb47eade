// A server with a goroutine per connection that executes a plan, and accounts for itself how long each step of each
// request took: the same plans and the same rows as plan_server.c.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	fixed   = 6
	stalls  = 1024
	header  = 16 + 24*stalls
	unknown = ^uint32(0)
)

type work struct {
	function func(uint64)
	rounds   uint64
	us       time.Duration
}

type step struct {
	kind                              string
	column, index, turns, bytes, more int
	flag                              bool
	file                              *os.File
	work                              work
	slots                             chan struct{}
	freed                             *atomic.Int64
}

type mutex struct {
	sync.Mutex
	released int64
}

var (
	steps                        []*step
	columns, port, responseBytes = 0, 0, 1024
	memory                       []byte
	capacity                     uint64
	locks                        [4]mutex
	upstreams                    = map[int]string{}
	logFile                      *os.File
	body                         = []byte(strings.Repeat("x", 1<<20))
	text                         [1024]byte
	store                        [4096]byte
	sink                         atomic.Uint64
	gate                         sync.RWMutex
	stallWork                    work
	stallEvery                   time.Duration
	stallColumn                  = -1
	kept                         atomic.Pointer[[]byte]
)

// ordered is what larger and smaller compare: Go has these built in since 1.21, and Debian 12 has 1.19.
type ordered interface {
	~int | ~int64 | ~uint64 | ~float64
}

func larger[N ordered](a, b N) N {
	if a > b {
		return a
	}
	return b
}

func smaller[N ordered](a, b N) N {
	if a < b {
		return a
	}
	return b
}

func clock(which uintptr) int64 {
	var now syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, which, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

var zero, zeroWall = time.Now(), clock(1)

// CLOCK_MONOTONIC without a system call.
func wall() int64 { return zeroWall + int64(time.Since(zero)) }
func cpu() int64  { return clock(3) }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ---- work that a profile can tell apart by its function ----

//go:noinline
func sort_records(rounds uint64) {
	var seed uint32 = 7
	var record [64]uint32
	for round := uint64(0); round < rounds; round++ {
		for i := range record {
			seed = seed*1664525 + 1013904223
			record[i] = seed
		}
		for i := 1; i < len(record); i++ {
			one, j := record[i], i
			for ; j > 0 && record[j-1] > one; j-- {
				record[j] = record[j-1]
			}
			record[j] = one
		}
	}
	sink.Store(uint64(record[31]))
}

//go:noinline
func hash_blocks(rounds uint64) {
	hash := uint64(14695981039346656037)
	for round := uint64(0); round < rounds; round++ {
		for _, letter := range text {
			hash = (hash ^ uint64(letter)) * 1099511628211
		}
	}
	sink.Store(hash)
}

//go:noinline
func scan_text(rounds uint64) {
	words := uint64(0)
	for round := uint64(0); round < rounds; round++ {
		inside := false
		for i := range text {
			letter := text[i] != ' ' && text[i] != byte(round)
			if letter && !inside {
				words++
			}
			inside = letter
		}
	}
	sink.Store(words)
}

//go:noinline
func multiply_matrix(rounds uint64) {
	var a, b, c [64]float64
	for i := range a {
		a[i], b[i] = float64(i+1), 1/float64(i+1)
	}
	for round := uint64(0); round < rounds; round++ {
		for i := 0; i < 8; i++ {
			for j := 0; j < 8; j++ {
				sum := 0.0
				for k := 0; k < 8; k++ {
					sum += a[i*8+k] * b[k*8+j]
				}
				c[i*8+j] = sum
			}
		}
		b[round%64] = c[(round+9)%64] * 1e-3
	}
	sink.Store(uint64(c[3]))
}

//go:noinline
func parse_numbers(rounds uint64) {
	sum := uint64(0)
	for round := uint64(0); round < rounds; round++ {
		number := uint64(0)
		for _, letter := range text {
			if letter >= 'a' && letter <= 'z' {
				number = number*10 + uint64(letter-'a')
			} else {
				sum, number = sum+number%(round+3), 0
			}
		}
	}
	sink.Store(sum)
}

//go:noinline
func compact_store(rounds uint64) {
	for round := uint64(0); round < rounds; round++ {
		for i := 64; i < len(store); i += 8 {
			one := binary.LittleEndian.Uint64(store[i:])*6364136223846793005 + round
			binary.LittleEndian.PutUint64(store[i-64:], one)
		}
	}
}

var named = map[string]func(uint64){
	"sort_records": sort_records, "hash_blocks": hash_blocks, "scan_text": scan_text,
	"multiply_matrix": multiply_matrix, "parse_numbers": parse_numbers, "compact_store": compact_store,
}

// Rounds in a microsecond, so that a plan may say how long; afterwards the same rounds are always done.
func makeWork(inside, function, us string) work {
	amount := number(us)
	made := work{us: time.Duration(amount) * time.Microsecond}
	if inside != "burn" {
		return made
	}
	made.function = named[function]
	best := 0.0
	for try := 0; try < 5; try++ {
		for rounds := uint64(256); ; rounds *= 2 {
			began := cpu()
			made.function(rounds)
			if took := cpu() - began; took > 2e6 {
				best = larger(best, float64(rounds)*1e3/float64(took))
				break
			}
		}
	}
	made.rounds = larger(1, uint64(best*float64(amount)))
	return made
}

// Does the work; how much later than asked it was done for want of a CPU, ns.
func (w *work) do() int64 {
	if w.function != nil {
		w.function(w.rounds)
		return 0
	}
	until := wall() + int64(w.us)
	time.Sleep(w.us)
	return wall() - until
}

// Keeps a goroutine that burns on its thread, for the same reason.
func (w *work) stay() func() {
	if w.function == nil {
		return func() {}
	}
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// ---- the account ----

type times struct{ wall, cpu int64 }

func now() times { return times{wall(), cpu()} }

// CPU time since then. A goroutine that waited may go on on another thread, whose clock says nothing of it: that
// shows as time backwards, or as more than has passed.
func (to times) since(from times) int64 {
	return smaller(larger(to.cpu-from.cpu, 0), to.wall-from.wall)
}

// One connection's side of the account: a row that is copied to the shared file at the end of a request.
type account []uint32

func (row account) note(column int, from, to times, late int64) {
	cell := row[fixed+3*column:]
	cell[0] += uint32(to.wall - from.wall)
	cell[1] += uint32(to.since(from))
	cell[2] += uint32(larger(late, 0))
}

func counter(at int) *uint64 { return (*uint64)(unsafe.Pointer(&memory[at])) }

func (row account) publish() {
	index := atomic.AddUint64(counter(0), 1) - 1
	at := header + int(index%capacity)*len(row)*4
	copy(unsafe.Slice((*uint32)(unsafe.Pointer(&memory[at])), len(row)), row)
}

// ---- steps ----

type connection struct {
	net.Conn
	head  []byte
	peers map[int][]net.Conn
}

// One message each way on the connections; how long after the last one's sending it was read, ns.
func ask(peers []net.Conn) int64 {
	var message [8]byte
	var last int64
	for _, peer := range peers {
		_, err := peer.Write(message[:])
		check(err)
	}
	for _, peer := range peers {
		_, err := peer.Read(message[:])
		check(err)
		last = larger(last, int64(binary.LittleEndian.Uint64(message[:])))
	}
	return wall() - last
}

func (s *step) run(c *connection, row account, from times) {
	late := int64(0)
	if s.kind == "burn" || s.kind == "file" || s.kind == "log" || s.kind == "allocate" {
		// The thread's CPU clock is the goroutine's own only while it stays, preempted or not.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		from.cpu = cpu()
	}
	// A disk has no stamp of its own that says when it was done; the kernel knows how long the thread stood in line then.
	disk := s.kind == "log" && s.turns > 0 || s.kind == "file" && !s.flag
	ready := int64(0)
	if disk {
		ready = readyNs()
		from = now()
	}
	switch s.kind {
	case "burn", "sleep":
		late = s.work.do()
	case "lock":
		lock := &locks[s.index]
		lock.Lock()
		defer s.work.stay()()
		held := now()
		row.note(s.column, from, held, sinceFree(lock.released, from, held))
		late = s.work.do()
		row.note(s.column+1, held, now(), late)
		lock.released = wall()
		lock.Unlock()
		return
	case "slot":
		s.slots <- struct{}{}
		defer s.work.stay()()
		held := now()
		row.note(s.column, from, held, sinceFree(s.freed.Load(), from, held))
		late = s.work.do()
		row.note(s.column+1, held, now(), late)
		s.freed.Store(wall())
		<-s.slots
		return
	case "upstream":
		peers := c.peers[s.index][:s.turns]
		if s.flag {
			late = ask(peers)
		} else {
			for range peers {
				late += ask(peers[:1])
			}
		}
	case "file":
		if !s.flag {
			_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, s.file.Fd(), 0, uintptr(s.bytes), 4, 0, 0)
		}
		buffer := buffers.Get().(*[]byte)
		_, err := s.file.ReadAt((*buffer)[:s.bytes], 0)
		check(err)
		buffers.Put(buffer)
	case "log":
		for turn := 0; turn < larger(1, s.turns); turn++ {
			_, err := logFile.Write(body[:s.bytes])
			check(err)
			if s.turns > 0 {
				check(syscall.Fdatasync(int(logFile.Fd())))
			}
		}
	case "allocate":
		fresh := make([]byte, s.bytes)
		for at := 0; at < len(fresh); at += 4096 {
			fresh[at] = 1
		}
		kept.Store(&fresh)
	case "pieces":
		_, _ = c.Write(c.head)
		for i := 0; i < s.bytes; i++ {
			if gap := time.Duration(s.more) * time.Microsecond; i > 0 && gap > 0 {
				until := wall() + int64(gap)
				time.Sleep(gap)
				late += wall() - until
			}
			_, _ = c.Write(body[:responseBytes/s.bytes])
		}
	}
	to := now()
	if disk {
		late = readyNs() - ready
	}
	row.note(s.column, from, to, late)
}

// How long this thread has been ready without a CPU, ns: the second number of its schedstat.
func readyNs() int64 {
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
		return int64(number(fields[1]))
	}
	return 0
}

// How long what was waited for had been free before it was taken.
func sinceFree(freed int64, from, held times) int64 {
	if freed <= from.wall {
		return 0
	}
	return held.wall - freed
}

var buffers = sync.Pool{New: func() any { fresh := make([]byte, 1<<20); return &fresh }}

// ---- the plan ----

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func readStep(words []string) {
	s := &step{kind: words[0], column: number(words[1])}
	rest := words[2:]
	switch s.kind {
	case "burn":
		s.work = makeWork("burn", rest[0], rest[1])
	case "sleep":
		s.work = makeWork("sleep", "-", rest[0])
	case "lock":
		s.index, s.work = number(rest[0]), makeWork(rest[1], rest[2], rest[3])
	case "slot":
		s.slots, s.freed = make(chan struct{}, number(rest[0])), new(atomic.Int64)
		s.work = makeWork(rest[1], rest[2], rest[3])
	case "upstream":
		s.index, s.turns, s.flag = number(rest[0]), number(rest[1]), rest[2] == "1"
	case "file":
		var err error
		s.file, err = os.Open(rest[0])
		check(err)
		s.bytes, s.flag = number(rest[1]), rest[2] == "1"
	case "log":
		s.bytes, s.turns = number(rest[0]), number(rest[1])
	case "allocate":
		s.bytes = number(rest[0])
	case "pieces":
		s.bytes, s.more = number(rest[0]), number(rest[1])
	}
	steps = append(steps, s)
}

func readPlan(path string) {
	plan, err := os.Open(path)
	check(err)
	lines := bufio.NewScanner(plan)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "port":
			port = number(words[1])
		case "response":
			responseBytes = number(words[1])
		case "columns":
			columns = number(words[1])
		case "records":
			file, err := os.OpenFile(words[1], os.O_RDWR, 0)
			check(err)
			about, err := file.Stat()
			check(err)
			capacity = uint64(number(words[2]))
			memory, err = syscall.Mmap(int(file.Fd()), 0, int(about.Size()), syscall.PROT_READ|syscall.PROT_WRITE,
				syscall.MAP_SHARED|syscall.MAP_POPULATE)
			check(err)
		case "log":
			logFile, err = os.OpenFile(words[1], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
			check(err)
		case "upstream":
			upstreams[number(words[1])] = "127.0.0.1:" + words[2]
		case "stall":
			stallEvery = time.Duration(number(words[1])) * time.Millisecond
			stallWork = makeWork(words[3], words[4], words[2])
			stallColumn = number(words[5])
		case "step":
			readStep(words[1:])
		}
	}
}

// ---- connections ----

// Reads a request by recvmsg, for the kernel's stamp of its arrival (0 when there is none); false at the end.
func readRequest(raw syscall.RawConn, buffer, control []byte) (arrived int64, more bool) {
	length := 0
	for {
		var got, controls int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			got, controls, _, _, failed = syscall.Recvmsg(int(fd), buffer[length:], control, 0)
			return failed != syscall.EAGAIN
		})
		if err != nil || failed != nil || got <= 0 {
			return 0, false
		}
		if arrived == 0 && controls >= 32 {
			seconds := int64(binary.LittleEndian.Uint64(control[16:]))
			nanos := int64(binary.LittleEndian.Uint64(control[24:]))
			arrived = seconds*1e9 + nanos - (time.Now().UnixNano() - wall())
		}
		length += got
		if length >= 4 && string(buffer[length-4:length]) == "\r\n\r\n" {
			return arrived, true
		}
		if length == len(buffer) {
			return 0, false
		}
	}
}

func (c *connection) serve() {
	defer c.Close()
	raw, err := c.Conn.(*net.TCPConn).SyscallConn()
	check(err)
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1)
	})
	for index, address := range upstreams {
		for _, s := range steps {
			for s.kind == "upstream" && s.index == index && len(c.peers[index]) < s.turns {
				peer, err := net.Dial("tcp", address)
				check(err)
				defer peer.Close()
				c.peers[index] = append(c.peers[index], peer)
			}
		}
	}
	row := make(account, fixed+3*columns)
	c.head = []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", responseBytes))
	whole := append(append([]byte{}, c.head...), body[:responseBytes]...)
	buffer, control := make([]byte, 4096), make([]byte, 256)
	for {
		arrived, more := readRequest(raw, buffer, control)
		if !more {
			return
		}
		from := now()
		for column := range row {
			row[column] = 0
		}
		if stallColumn >= 0 {
			gate.RLock()
			gate.RUnlock()
			row.note(stallColumn, from, now(), 0)
		}
		pieces := false
		for _, s := range steps {
			pieces = pieces || s.kind == "pieces"
			s.run(c, row, now())
		}
		if !pieces {
			if _, err := c.Write(whole); err != nil {
				return
			}
		}
		done := now()
		row[0], row[1] = uint32(done.wall), uint32(done.wall>>32)
		row[2] = unknown
		if arrived != 0 {
			row[2] = uint32(larger(0, from.wall-arrived))
		}
		row[3], row[4] = uint32(done.wall-from.wall), uint32(done.since(from))
		row.publish()
	}
}

func stallForEver() {
	for {
		time.Sleep(stallEvery)
		gate.Lock()
		runtime.LockOSThread()
		from := now()
		stallWork.do()
		to := now()
		runtime.UnlockOSThread()
		gate.Unlock()
		slot := 16 + 24*int(*counter(8)%stalls)
		*counter(slot), *counter(slot + 8) = uint64(from.wall), uint64(to.wall)
		*counter(slot + 16) = uint64(to.since(from))
		atomic.AddUint64(counter(8), 1)
	}
}

func main() {
	for i := range text {
		text[i] = byte('a' + i%26)
		if i%7 == 6 {
			text[i] = ' '
		}
	}
	readPlan(os.Args[1])
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	check(err)
	if stallEvery > 0 {
		go stallForEver()
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			continue
		}
		go (&connection{client, nil, map[int][]net.Conn{}}).serve()
	}
}
