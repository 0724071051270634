package kuberig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lender names, in the environment of a test, the socket of a Lend. Without it a test starts
// an API server of its own.
const Lender = "QUOIN_API_SERVERS"

// loan is what a borrower is told of its API server.
type loan struct {
	Home, Host string // the folder of its files, and its address
	Error      string
}

// Lend lends API servers to the tests of other processes, until the context ends. A test connects
// to the socket, and has one API server until it closes the connection. An API server that comes
// back is emptied and lent again. A new one is started only if all are lent. Their files are in
// dir. Lend returns how often it has lent one, and how many it has started.
func Lend(ctx context.Context, socket net.Listener, dir string) (loans, started int) {
	l := &lender{dir: dir}
	l.returned.L = &l.mu
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	var lent sync.WaitGroup
	for {
		conn, err := socket.Accept()
		if err != nil { // the context has ended
			break
		}
		loans++
		lent.Go(func() {
			defer func() { _ = conn.Close() }()
			l.lend(ctx, conn)
		})
	}
	lent.Wait()
	for _, c := range l.idle {
		c.Stop()
	}
	return loans, l.started
}

type lender struct {
	dir string

	mu       sync.Mutex
	returned sync.Cond   // an API server has been emptied, or has ended
	idle     []*reusable // empty
	emptying int
	started  int
}

func (l *lender) lend(ctx context.Context, conn net.Conn) {
	c, err := l.take(ctx)
	if err != nil {
		_ = json.NewEncoder(conn).Encode(loan{Error: err.Error()})
		return
	}
	hangup := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer hangup()
	if err := json.NewEncoder(conn).Encode(loan{Home: c.home, Host: c.host}); err == nil {
		_, _ = io.Copy(io.Discard, conn) // until the borrower closes it, or has died
	}
	l.takeBack(ctx, c, conn)
}

// take returns an API server that nobody has. It waits for one that is being emptied, because
// a start costs more.
func (l *lender) take(ctx context.Context) (*reusable, error) {
	l.mu.Lock()
	for len(l.idle) == 0 && l.emptying > 0 {
		l.returned.Wait()
	}
	if n := len(l.idle); n > 0 {
		defer l.mu.Unlock()
		c := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return c, nil
	}
	l.started++
	l.mu.Unlock()
	home, err := os.MkdirTemp(l.dir, "kube-")
	if err != nil {
		return nil, err
	}
	c, err := Start(ctx, home)
	if err != nil {
		return nil, err
	}
	// The last that a new API server writes is the Service kubernetes, when it is ready already.
	err = c.server.Ready(ctx, func(ctx context.Context) error {
		_, err := c.Client().CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		return err
	})
	var first state
	if err == nil {
		first, err = c.state(ctx)
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return &reusable{c, first}, nil
}

// takeBack empties an API server, and ends it if that fails. It closes the connection as soon as
// the API server counts as coming back. A test that then asks for one waits for this one.
func (l *lender) takeBack(ctx context.Context, c *reusable, conn net.Conn) {
	l.mu.Lock()
	l.emptying++
	l.mu.Unlock()
	_ = conn.Close()
	err := ctx.Err()
	if err == nil {
		if err = c.empty(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "an API server could not be emptied, so it is ended:", err)
		}
	}
	if err != nil {
		c.Stop()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.emptying--
	if err == nil {
		l.idle = append(l.idle, c)
	}
	l.returned.Broadcast()
}

// borrow returns an API server of the lender at the socket. The test's own files are in dir.
func borrow(ctx context.Context, socket, dir string) (*Cluster, error) {
	bin, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("borrow an API server: %w", err)
	}
	var l loan
	if err := json.NewDecoder(conn).Decode(&l); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("borrow an API server: %w", err)
	}
	if l.Error != "" {
		_ = conn.Close()
		return nil, fmt.Errorf("borrow an API server: %w", errors.New(l.Error))
	}
	c := newCluster(dir, l.Home, l.Host, bin) // it knows no kinds of the last loan
	c.loan = conn
	_, err = c.kubeconfig("admin", adminToken)
	return c, err
}
