package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The configuration files of daemons, below a machine's root. The DRA driver has one for
// each ComputeDomain, which it mounts into the daemon's pod. The machine's own service
// has another.
const (
	domainConfigs = "var/lib/kubelet/plugins/compute-domain.nvidia.com/domains/*/imexd.cfg"
	hostConfig    = "etc/nvidia-imex/config.cfg"
)

const ctlProgram = "nvidia-imex-ctl"

// ctlFolders have the program if it is not in PATH, below a machine's root: beside a
// driver of the machine's own, and in the driver's container.
var ctlFolders = []string{"usr/bin", "run/nvidia/driver/usr/bin"}

// question says which daemon to ask, and how.
type question struct {
	program, config string
	service         service
	// domain says that the program can find the peers too. nodes is the file that lists them,
	// and root is the machine's.
	domain      bool
	nodes, root string
}

// service are the arguments by which the program finds a daemon: -i, an address and a
// port, or -u and a socket.
type service [3]string

func (s service) words() []string {
	if s[2] == "" {
		return s[:2]
	}
	return s[:]
}

// daemon is the daemon of the machine, by its configuration.
type daemon struct {
	path    string
	written time.Time
	config  daemonConfig
}

// findDaemon finds the machine's daemon: the host's service if it runs, because no other can
// run beside it, otherwise the daemon of a ComputeDomain. It returns nil if there is none.
func (r *Reader) findDaemon(hostService bool) (*daemon, error) {
	path := filepath.Join(r.root, hostConfig)
	if !hostService {
		var err error
		if path, err = newestFile(filepath.Join(r.root, domainConfigs)); err != nil || path == "" {
			return nil, err
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &daemon{path, info.ModTime(), parseConfig(data)}, nil
}

// question says how to ask a daemon.
func (r *Reader) question(d *daemon) (*question, error) {
	service, err := d.config.service(r.root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.path, err)
	}
	program, err := r.findProgram()
	if err != nil {
		return nil, err
	}
	// A daemon in a pod has its file in the pod, with names that may resolve only there.
	info, err := os.Stat(d.config.nodes)
	return &question{program: program, config: d.path, service: service, domain: err == nil && info.Mode().IsRegular(), nodes: d.config.nodes, root: r.root}, nil
}

// youngFor is how long a daemon that was started may take until it answers for the first
// time. Later its silence means nothing, because perhaps it can never be asked.
const youngFor = 10 * time.Minute

// fault says why a driver's daemon that does not say its state is not ready, empty if
// nothing shows that. The configuration of a daemon stays when the machine boots.
func (r *Reader) fault(d *daemon) string {
	switch booted := bootTime(filepath.Join(r.root, statFile)); {
	case !booted.IsZero() && d.written.Before(booted):
		return "it has not started since the machine booted"
	case r.ctl.silent(time.Since(d.written) < youngFor):
		return "it gives no answer"
	}
	return ""
}

// bootTime reads when the machine booted, zero if that is not known.
func bootTime(path string) time.Time {
	data, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}
	}
	for line := range strings.Lines(string(data)) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "btime "); is {
			if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
				return time.Unix(seconds, 0)
			}
		}
	}
	return time.Time{}
}

// newestFile returns the file of a pattern that was written last, empty if there is
// none. Folders of domains that the node has left stay for a while, and each daemon
// writes its configuration when it starts.
func newestFile(pattern string) (string, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	var newest string
	var written time.Time
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return "", err
		}
		if newest == "" || info.ModTime().After(written) {
			newest, written = path, info.ModTime()
		}
	}
	return newest, nil
}

// findProgram finds nvidia-imex-ctl.
func (r *Reader) findProgram() (string, error) {
	if path, err := exec.LookPath(ctlProgram); err == nil {
		return path, nil
	}
	for _, folder := range ctlFolders {
		if path, err := exec.LookPath(filepath.Join(r.root, folder, ctlProgram)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("a daemon is configured, and there is no %s to ask it: want the program in PATH, or in %s or %s of %s", ctlProgram, ctlFolders[0], ctlFolders[1], r.root)
}

// daemonConfig is the part of a daemon's configuration that says how to ask it.
type daemonConfig struct {
	commands              bool
	address, port, socket string
	// nodes is the file with the peers' addresses.
	nodes string
}

// valuesOf reads a configuration of one of NVIDIA's daemons. Its lines are KEY=VALUE, the last
// line of a key counts, and # begins a comment.
func valuesOf(text []byte) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if key, value, is := strings.Cut(line, "="); is {
			values[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return values
}

// parseConfig reads a configuration of nvidia-imex.
func parseConfig(text []byte) daemonConfig {
	values := valuesOf(text)
	return daemonConfig{
		commands: values["IMEX_CMD_ENABLED"] == "1",
		address:  values["IMEX_CMD_BIND_INTERFACE_IP"],
		port:     values["IMEX_CMD_PORT"],
		socket:   values["IMEX_CMD_UNIX_DOMAIN_PATH"],
		nodes:    cmp.Or(values["IMEX_NODE_CONFIG_FILE"], "/etc/nvidia-imex/nodes_config.cfg"),
	}
}

// service says where the daemon takes questions: at its socket if that is below root or
// where it says, because a container has no port of the host, and otherwise at its port. The
// program could read the configuration itself, but it refuses one whose log it may not
// write, as in a container with read-only files.
func (c *daemonConfig) service(root string) (service, error) {
	if !c.commands {
		return service{}, errors.New("the daemon takes no questions: want IMEX_CMD_ENABLED=1, and IMEX_CMD_UNIX_DOMAIN_PATH or IMEX_CMD_PORT")
	}
	if strings.HasPrefix(c.socket, "/") {
		for _, path := range []string{filepath.Join(root, c.socket), c.socket} {
			if info, err := os.Stat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
				return service{"-u", path}, nil
			}
		}
		if c.port == "" {
			return service{}, fmt.Errorf("IMEX_CMD_UNIX_DOMAIN_PATH %s: there is no such socket below %s; in a container mount its folder", c.socket, root)
		}
	}
	address := cmp.Or(c.address, "127.0.0.1")
	if _, err := netip.ParseAddr(address); err != nil {
		return service{}, fmt.Errorf("IMEX_CMD_BIND_INTERFACE_IP %q: want an IP address", address)
	}
	if port, err := strconv.ParseUint(c.port, 10, 16); err != nil || port == 0 {
		return service{}, fmt.Errorf("IMEX_CMD_PORT %q: want a port's number", c.port)
	}
	return service{"-i", address, c.port}, nil
}
