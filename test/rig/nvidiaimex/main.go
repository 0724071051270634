// Command nvidiaimex plays two programs of NVIDIA's, by the name that it is called by. Both are linked with libz, as the real ones
// are.
//
// nvidia-imex says at the command port of its configuration that it is READY, until a signal ends it.
//
// nvidia-imex-ctl asks it. It refuses what the real programs 580.178.04, 595.91.07 and 615.71.09 refuse, in their words: an option that
// they do not know, and a configuration whose log has no folder. A script beside it, with the name nvidia-imex-ctl.says, answers instead
// of a daemon. The answer to -N is the file domain.json beside the configuration's list of nodes, if it is there.
package main

// #cgo LDFLAGS: -Wl,--no-as-needed -l:libz.so.1
// extern const char *zlibVersion(void); // of libz.
import "C"

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	C.zlibVersion()
	run := serve
	if filepath.Base(os.Args[0]) == "nvidia-imex-ctl" {
		run = control
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are those that nvidia-imex-ctl knows. True is for one with a value.
var options = map[string]bool{"c": true, "q": false, "N": false, "n": false, "j": false, "H": false, "s": false, "d": false, "m": false, "t": true, "u": true}

// parse returns the options of a command line with their values.
func parse(args []string) (map[string]string, error) {
	given := map[string]string{}
	for len(args) > 0 {
		name, value, has := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(args[0], "-"), "-"), "=")
		takes, known := options[name]
		args = args[1:]
		switch {
		case !known:
			return nil, fmt.Errorf("Unknown command line flag '%s'", name) //nolint:staticcheck // the real program's words
		case takes && !has && len(args) == 0:
			return nil, fmt.Errorf("flag '%s' is missing its argument", name)
		case takes && !has:
			value, args = args[0], args[1:]
		}
		given[name] = value
	}
	if given["c"] != "" && given["u"] != "" {
		return nil, errors.New("only one of -u or -c can be specified")
	}
	return given, nil
}

// control is nvidia-imex-ctl.
func control(args []string) error {
	given, err := parse(args)
	if err != nil {
		return err
	}
	network, address, domain := "unix", given["u"], ""
	if address == "" {
		path, is := given["c"]
		if !is {
			path = "/etc/nvidia-imex/config.cfg"
		}
		config, err := readConfig(path)
		if err != nil {
			return err
		}
		if config["IMEX_CMD_ENABLED"] != "1" {
			return errors.New("the command service is not enabled")
		}
		if address = config["IMEX_CMD_UNIX_DOMAIN_PATH"]; address == "" {
			network, address = "tcp", net.JoinHostPort(config["IMEX_CMD_BIND_INTERFACE_IP"], config["IMEX_CMD_PORT"])
		}
		domain = filepath.Join(filepath.Dir(config["IMEX_NODE_CONFIG_FILE"]), "domain.json")
	}
	if script := os.Args[0] + ".says"; exists(script) {
		return syscall.Exec("/bin/sh", append([]string{"sh", script}, args...), os.Environ())
	}
	if _, whole := given["N"]; whole && exists(domain) {
		text, err := os.ReadFile(domain)
		if err == nil {
			_, err = os.Stdout.Write(text)
		}
		return err
	}
	conn, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = io.Copy(os.Stdout, conn)
	return err
}

// readConfig reads a configuration as both programs do, and refuses it as they do.
func readConfig(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	config := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if key, value, is := strings.Cut(line, "="); is {
			config[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	if log := config["LOG_FILE_NAME"]; log != "" && !exists(filepath.Dir(log)) {
		return nil, errors.New("LOG_FILE_NAME has an invalid value")
	}
	return config, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// serve is nvidia-imex.
func serve(args []string) error {
	at := slices.Index(args, "-c") + 1
	if at == 0 || at == len(args) {
		return errors.New("want -c and a configuration")
	}
	config, err := readConfig(args[at])
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(config["IMEX_CMD_BIND_INTERFACE_IP"], config["IMEX_CMD_PORT"]))
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("READY\n"))
			_ = conn.Close()
		}
	}()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	for s := range signals {
		if s != syscall.SIGUSR1 { // read the nodes again
			return nil
		}
	}
	return nil
}
