// The h2spec program, of the library that its module is: its own command has no go.mod and builds no more.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/summerwind/h2spec"
	"github.com/summerwind/h2spec/config"
)

func main() {
	port := flag.Int("port", 443, "port of the server at 127.0.0.1, which speaks TLS")
	path := flag.String("path", "/", "path that is asked for")
	seconds := flag.Int("seconds", 5, "how long an answer may take")
	strict := flag.Bool("strict", false, "also the cases that are recommended alone")
	flag.Parse()
	passed, err := h2spec.Run(&config.Config{
		Host: "127.0.0.1", Port: *port, Path: *path, Timeout: time.Duration(*seconds) * time.Second,
		MaxHeaderLen: 4000, TLS: true, Insecure: true, Strict: *strict, Sections: flag.Args(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}
