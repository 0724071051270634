package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
)

// front stands between one publisher and the API server. It can cut the connection.
type front struct {
	address string
	server  *http.Server

	mu   sync.Mutex
	ends context.Context // done when the connection is cut
	cut  context.CancelFunc
}

// newFront starts a front of the API server that a kubeconfig names. It adds the token,
// because client-go sends none without TLS.
func newFront(kubeconfig string) (*front, error) {
	server, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("start a front: %w", err)
	}
	to, err := url.Parse(server.Host)
	if err != nil {
		return nil, fmt.Errorf("start a front: %w", err)
	}
	f := &front{address: loopback.Address(6444)}
	f.join()
	listener, err := net.Listen("tcp", f.address)
	if err != nil {
		return nil, fmt.Errorf("start a front: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Set("Authorization", "Bearer "+server.BearerToken)
		},
		Transport:     &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // on this machine
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	f.server = &http.Server{ErrorLog: proxy.ErrorLog, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // on this machine
		f.mu.Lock()
		ends := f.ends
		f.mu.Unlock()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ends, cancel)() //nolint:contextcheck // a cut connection ends every request
		proxy.ServeHTTP(w, r.WithContext(ctx))
	})}
	go func() { _ = f.server.Serve(listener) }() // until close
	return f, nil
}

// leave cuts the publisher off, and join connects it again.
func (f *front) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut()
}

func (f *front) join() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends, f.cut = context.WithCancel(context.Background())
}

// close ends the front.
func (f *front) close() { _ = f.server.Close() } // nobody is left

// kubeconfig writes a kubeconfig that goes through the front.
func (f *front) kubeconfig(path string) error {
	if err := os.WriteFile(path, []byte(kuberig.KubeconfigText("http://"+f.address, "")), 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
