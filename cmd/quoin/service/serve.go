package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
)

// The bounds of a server.
const (
	// maxScrapes is how many clients read the metrics at a time. One more gets the status 503.
	maxScrapes = 4
	// maxHeader is the largest header in bytes: a token of Kubernetes has some 1,500.
	maxHeader = 16 << 10
	// headerTime and answerTime are how long a client may take to send its question and to
	// read the answer. The second is Prometheus' own default.
	headerTime, answerTime = 5 * time.Second, 10 * time.Second
	idleTime               = 2 * time.Minute
)

// Options are what a program serves.
type Options struct {
	config.Listen
	Registry *prometheus.Registry
	// Ready says why the program is not ready. It may ask others.
	Ready func(context.Context) error
	// Loops are the program's loops.
	Loops []Loop
	// Map is the page with the map, or nil. It is served at MapAddress, a loopback address, to
	// everybody there.
	Map        http.Handler
	MapAddress string
	// Cluster is asked who may read metrics, if config.Listen says so.
	Cluster *rest.Config
	Log     *slog.Logger
}

// Serve answers on all addresses until ctx ends. An empty address serves nothing.
func Serve(ctx context.Context, o *Options) error {
	handler, secure, err := o.metrics()
	if err != nil {
		return err
	}
	state := &state{options: o}
	return Together(ctx,
		func(ctx context.Context) error {
			return serve(ctx, "the map", o.MapAddress, "mapListen", local(o.Map), nil)
		},
		func(ctx context.Context) error { return serve(ctx, "metrics", o.Address, "listen", handler, secure) },
		func(ctx context.Context) error {
			return serve(ctx, "probes", o.Health, "healthListen", state.handler(), nil)
		},
		state.run)
}

// metrics returns the handler of /metrics, and how its answers are encrypted, which may be nil.
func (o *Options) metrics() (http.Handler, *tls.Config, error) {
	mux := http.NewServeMux()
	// The time-outs of the server end a slow client. promhttp's own Timeout would keep a whole
	// answer for each client, and for more of them than maxScrapes.
	handler := promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true, MaxRequestsInFlight: maxScrapes})
	if o.Authorize {
		access, err := newAccess(o.Cluster, o.Log)
		if err != nil {
			return nil, nil, err
		}
		handler = access.guard(handler)
	}
	mux.Handle("GET /metrics", handler)
	if o.TLSCert == "" {
		return mux, nil, nil
	}
	pair := &keyPair{cert: o.TLSCert, key: o.TLSKey, log: o.Log}
	if _, err := pair.get(nil); err != nil {
		return nil, nil, err
	}
	return mux, &tls.Config{GetCertificate: pair.get, MinVersion: tls.VersionTLS12}, nil
}

// serve answers on the address until ctx ends. what is what it serves, key the key of the
// configuration that says where.
func serve(ctx context.Context, what, addr, key string, handler http.Handler, secure *tls.Config) error {
	if addr == "" {
		<-ctx.Done()
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve %s: %w; choose another address by the key %s", what, err, key)
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, WriteTimeout: answerTime,
		IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, ErrorLog: nothing}
	go func() {
		<-ctx.Done()
		_ = server.Close() // a scrape may end half-way
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", what, err)
	}
	return nil
}

// local serves those who reach this machine's loopback address: who may forward a port of the
// pod, or works on the machine. The question must name a loopback address, so that a page of
// another site cannot ask by a name of its own that leads here.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !config.IsLoopback(r.Host) {
			http.Error(w, "the map is here only as localhost or 127.0.0.1", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
