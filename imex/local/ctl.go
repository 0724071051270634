package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/child"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	// askTimeout ends the calls of one question. If a peer does not answer, -N takes
	// seconds, and it may hang for ever.
	askTimeout = 6 * time.Second
	// dieWithin is how much longer a killed program may take to end.
	dieWithin = time.Second
	// maxSaid bounds an answer, in bytes. A domain of 18 nodes takes some 30 KiB.
	maxSaid = 1 << 20
)

// ctl asks nvidia-imex-ctl and keeps its last answer. At most one question is under
// way.
type ctl struct {
	// patience is how long to wait for an answer, timeout ends the program.
	patience, timeout time.Duration
	// underWay gets the answer to the question asked at since; nil without one.
	underWay chan answer
	since    time.Time
	last     answer
}

// answer is what the program said to a question.
type answer struct {
	to             question
	daemon, domain said
}

// ask asks a question, unless one is still under way, and waits for the answer for
// patience at most. It returns the last answer to this question. The program of a question ends
// when this process does.
func (c *ctl) ask(q question) answer {
	if q != c.last.to {
		c.last = answer{to: q}
	}
	if c.underWay == nil {
		c.underWay, c.since = make(chan answer, 1), time.Now()
		ctx, done := context.WithTimeout(context.Background(), c.timeout)
		go func(to chan<- answer) {
			defer done()
			to <- q.ask(ctx)
		}(c.underWay)
	}
	patience := time.NewTimer(c.patience)
	defer patience.Stop()
	select {
	case a := <-c.underWay:
		c.underWay = nil
		if a.to == q {
			c.last.daemon.take(a.daemon)
			c.last.domain.take(a.domain)
		}
	case <-patience.C:
		if time.Since(c.since) >= c.timeout+dieWithin {
			stuck := said{err: errors.New(ctlProgram + " does not end when it is killed: the driver holds it; see dmesg")}
			c.last.daemon.take(stuck)
			if q.domain {
				c.last.domain.take(stuck)
			}
		}
	}
	return c.last
}

// forget forgets what was said.
func (c *ctl) forget() { c.last = answer{} }

// said is a state that the program said, or why it said none. Both are empty before the
// first answer, and for a state that was not asked for.
type said struct {
	state  string
	peers  []topology.IMEXPeer // of a domain, as in topology.IMEX
	err    error
	missed int
}

// take takes an answer. A state outlives one missing answer. The reason of the first of several
// missing answers stays, because the program's complaint may differ each time. So neither
// changes a report by itself.
func (s *said) take(now said) {
	if now.err == nil {
		*s = now
		return
	}
	s.missed++
	if s.state != "" && s.missed < 2 {
		return
	}
	s.state, s.peers = "", nil
	if s.err == nil {
		s.err = now.err
	}
}

// ask asks for the state of the daemon and, if q allows it, of its domain.
func (q question) ask(ctx context.Context) answer {
	a := answer{to: q, daemon: q.askDaemon(ctx)}
	if q.domain {
		a.domain = q.run(ctx, nil, q.parseDomain, "-c "+q.config+" -N -j", "-c", q.config, "-N", "-j")
	}
	return a
}

// askDaemon asks for the state of the daemon.
func (q question) askDaemon(ctx context.Context) said {
	config, err := withoutPath(q.service.config)
	if err != nil {
		return said{err: fmt.Errorf("write a configuration for %s: %w", ctlProgram, err)}
	}
	defer func() { _ = config.Close() }() // nothing of it is left then
	return q.run(ctx, []*os.File{config}, parseDaemonState, "-q of the daemon at "+q.service.at, "-c", inheritedFile, "-q")
}

// inheritedFile is the path by which a program finds the one file that it inherits.
const inheritedFile = "/proc/self/fd/3"

// withoutPath returns a file in memory. A container with read-only files can have it too, and
// nothing is left of it when this process is killed.
func withoutPath(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("imex.cfg", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "imex.cfg")
	if _, err := file.WriteString(text); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// run runs the program and reads the state that it prints. asked is what it is asked, for people.
func (q question) run(ctx context.Context, inherits []*os.File, parse func([]byte) (said, error), asked string, args ...string) said {
	program := child.Program{Path: q.program, Args: args, Inherits: inherits, Most: maxSaid}
	text, err := program.Output(ctx)
	var answer said
	if err == nil {
		answer, err = parse(text)
	}
	if err != nil {
		return said{err: fmt.Errorf("%s %s: %w", ctlProgram, asked, err)}
	}
	return answer
}

// parseDaemonState reads what -q prints: one word.
func parseDaemonState(text []byte) (said, error) {
	state := strings.TrimSpace(string(text))
	if !isState(state) {
		return said{}, child.Complained(errors.New("the answer is not one word such as READY"), text)
	}
	return said{state: state}, nil
}

// isState reports whether a text is a state in NVIDIA's form, such as READY or
// WAITING_FOR_PEERS.
func isState(s string) bool {
	const most = 64
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}
