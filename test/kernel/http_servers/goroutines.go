// An HTTP server with a goroutine for each connection: net/http.
//
//	goroutines FOLDER     # prints its port, exits at the end of its standard input
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func say(path, line string) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(line); err != nil {
		log.Fatal(err)
	}
}

func serve(_ http.ResponseWriter, request *http.Request) {
	path := os.Args[1] + request.URL.Path
	wait, _ := strconv.Atoi(request.URL.RawQuery)
	trace := "-"
	if parent := request.Header.Get("traceparent"); parent != "" {
		trace = strings.Split(parent, "-")[1]
	}
	say(path, "before "+trace+"\n")
	time.Sleep(time.Duration(wait) * time.Millisecond)
	say(path, "after "+trace+"\n")
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(listener, http.HandlerFunc(serve))
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	io.Copy(io.Discard, os.Stdin)
}
