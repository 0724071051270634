package service

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
)

// large is a collector whose text is larger than what the kernel keeps of a connection.
type large struct {
	collected atomic.Int64
	desc      *prometheus.Desc
}

const largeSeries = 40_000

func newLarge() *large {
	return &large{desc: prometheus.NewDesc("large", "", []string{"n"}, nil)}
}

// Describe sends the description of the series.
func (l *large) Describe(c chan<- *prometheus.Desc) { c <- l.desc }

// Collect sends the series.
func (l *large) Collect(c chan<- prometheus.Metric) {
	l.collected.Add(1)
	for i := range largeSeries {
		c <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, 1, strings.Repeat("x", 60)+string(rune('a'+i%26))+time.Duration(i).String())
	}
}

// started is a server of a test.
type started struct {
	metrics, health string
	asked           atomic.Int64
	ready           atomic.Pointer[error]
	large           *large
}

// start serves until the test ends.
func start(t *testing.T) *started {
	t.Helper()
	s := &started{metrics: loopback.Address(9835), health: loopback.Address(9837), large: newLarge()}
	reg := Registry("test")
	reg.MustRegister(s.large)
	serving(t, &Options{Listen: config.Listen{Address: s.metrics, Health: s.health}, Registry: reg, Ready: func(context.Context) error {
		s.asked.Add(1)
		if err := s.ready.Load(); err != nil {
			return *err
		}
		return nil
	}})
	await.Until(t, "ready", func() bool { code, _ := get("http://" + s.health + "/readyz"); return code == http.StatusOK })
	return s
}

func serving(t *testing.T, o *Options) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// get asks by a connection of its own, as the kubelet does.
func get(url string) (int, string) {
	client := &http.Client{Timeout: await.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url) //nolint:noctx // has a time limit
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

const question = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

// crowd is many clients that connect again and again until they are told to go.
type crowd struct {
	address, text string
	connects      atomic.Int64
	wait          sync.WaitGroup
	leave         context.CancelFunc
}

// newCrowd has clients connect to the address, send the text and read nothing. Each connects
// again after a moment, or when the server has closed the connection.
func newCrowd(t *testing.T, clients int, address, text string) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{address: address, text: text, leave: cancel}
	for i := range clients {
		c.wait.Go(func() { c.run(ctx, time.Duration(i%20+1)*100*time.Millisecond) })
	}
	t.Cleanup(c.gone)
	await.Until(t, "all clients have connected", func() bool { return c.connects.Load() >= int64(clients) })
	return c
}

// run is one client, which keeps each connection for a while.
func (c *crowd) run(ctx context.Context, while time.Duration) {
	for ctx.Err() == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address)
		if err != nil {
			continue // the server accepts when it can
		}
		c.connects.Add(1)
		_, _ = conn.Write([]byte(c.text)) // the server may have closed it
		select {
		case <-ctx.Done():
		case <-time.After(while):
		}
		_ = conn.Close()
	}
}

// gone ends all clients.
func (c *crowd) gone() {
	c.leave()
	c.wait.Wait()
}

// answered asks until the answer is right, three times at most: the kubelet, too, restarts a
// pod after three probes that failed. On a busy machine this process may pause for longer than
// the server waits for a question.
func answered(t *testing.T, url string, right func(code int, text string) bool) {
	t.Helper()
	var said []string
	for range 3 {
		code, text := get(url)
		if right(code, text) {
			return
		}
		said = append(said, fmt.Sprintf("%d %.200s", code, text))
	}
	t.Errorf("%s: %q", url, said)
}

// TestSlowScrapers has crowds that send half a question or do not read the answer, and
// connect again and again. Each probe is answered, and the memory stays within bounds.
func TestSlowScrapers(t *testing.T) {
	// The limit is for the heap and the stacks of this process, which include the stacks of the
	// crowd. A scrape of so many series needs 14 MiB, and leaves as much to the garbage collector.
	const limit = 256 << 20
	percent := debug.SetGCPercent(100) // as in the products, whatever the caller has set
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	for _, tt := range []struct {
		name    string
		clients int
		probes  bool // they ask where the probes are answered
		text    string
		refused bool // the crowd takes all of maxScrapes
	}{
		{"half a question", 1000, false, question[:20], false},
		{"no reader", 1000, false, question, true},
		{"nothing to the probes", 600, true, "", false},
		{"half a probe", 600, true, "GET /readyz HT", false},
		{"whole probes", 600, true, strings.ReplaceAll(question, "metrics", "readyz"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t)
			if code, text := get("http://" + s.metrics + "/metrics"); code != http.StatusOK || strings.Count(text, "\nlarge{") != largeSeries {
				t.Fatal("not all series")
			}
			before, asked, began := memory(), s.asked.Load(), time.Now()
			address := s.metrics
			if tt.probes {
				address = s.health
			}
			c := newCrowd(t, tt.clients, address, tt.text)
			most := int64(0)
			for again := c.connects.Load() + 3*int64(tt.clients); c.connects.Load() < again; {
				most = max(most, memory())
				for _, path := range []string{"/healthz", "/readyz"} {
					answered(t, "http://"+s.health+path, func(code int, _ string) bool { return code == http.StatusOK })
				}
				answered(t, "http://"+s.metrics+"/metrics", func(code int, text string) bool {
					return code == http.StatusOK && strings.Count(text, "\nlarge{") == largeSeries ||
						tt.refused && code == http.StatusServiceUnavailable && strings.HasPrefix(text, "Limit of concurrent requests reached")
				})
			}
			t.Logf("%d connections of %d clients: %d MiB more at most", c.connects.Load(), tt.clients, (most-before)>>20)
			if most-before > limit {
				t.Errorf("%d MiB more", (most-before)>>20)
			}
			if n, took := s.asked.Load()-asked, time.Since(began); int(n) > 100+int(took.Seconds()) {
				t.Errorf("asked %d times in %s whether it is ready", n, took)
			}
			c.gone()
			await.Until(t, "metrics are answered when the crowd has gone", func() bool { code, _ := get("http://" + s.metrics + "/metrics"); return code == http.StatusOK })
		})
	}
}

// memory is what the program uses of heap and stacks.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestStuck has three loops: one waits, one never ends its work, and one gets no answer to its
// question.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Pointer[time.Time]
		hang := make(chan struct{})
		questions := 0
		s := &state{options: &Options{
			Ready: func(context.Context) error {
				if questions++; questions > 2 {
					<-hang
				}
				return nil
			},
			Loops: []Loop{{"waits", func() *time.Time { return nil }}, {"the publisher", busy.Load}},
		}}
		ask := func(path string) string {
			w := httptest.NewRecorder()
			s.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			return strconv.Itoa(w.Code) + " " + strings.TrimSpace(w.Body.String())
		}
		want := func(when, path, want string) {
			t.Helper()
			if got := ask(path); !regexp.MustCompile("^" + want + "$").MatchString(got) {
				t.Errorf("%s, %s: %q, want %q", when, path, got, want)
			}
		}
		want("before the first answer", "/readyz", "503 not known yet")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.run(ctx) }()
		synctest.Wait()
		want("after it", "/readyz", "200 ok")
		now := time.Now()
		busy.Store(&now)
		time.Sleep(stuckAfter)
		want("a long pass", "/healthz", "200 ok")
		time.Sleep(time.Second)
		want("a longer pass", "/healthz", "503 stuck: the publisher has been at the same work since 2.*Z")
		busy.Store(nil)
		want("no answer", "/readyz", "503 not known since 2.*Z")
		time.Sleep(stuckAfter)
		want("no answer for long", "/healthz", "503 stuck: the question whether it is ready has been at the same work since 2.*Z")
		close(hang)
		synctest.Wait()
		want("an answer", "/healthz", "200 ok")
		want("an answer", "/readyz", "200 ok")
		cancel()
		<-done
	})
}

// TestReadiness has a program that stops being ready.
func TestReadiness(t *testing.T) {
	s := start(t)
	broken := errors.New("the API server does not answer")
	s.ready.Store(&broken)
	await.Until(t, "not ready", func() bool {
		code, text := get("http://" + s.health + "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(text, broken.Error())
	})
	if code, _ := get("http://" + s.health + "/healthz"); code != http.StatusOK {
		t.Error("not alive because it is not ready")
	}
	if code, _ := get("http://" + s.metrics + "/readyz"); code != http.StatusNotFound {
		t.Error("probes among the metrics")
	}
}

// TestServeErrors has addresses and certificates that cannot be.
func TestServeErrors(t *testing.T) {
	s, dir := start(t), t.TempDir()
	await.Until(t, "the address is taken", func() bool { code, _ := get("http://" + s.metrics + "/none"); return code == http.StatusNotFound })
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ready := func(context.Context) error { return nil }
	for want, listen := range map[string]config.Listen{
		"serve metrics: listen tcp .*: bind: address already in use; choose another address by the key listen":      {Address: s.metrics},
		"serve probes: listen tcp .*: bind: address already in use; choose another address by the key healthListen": {Health: s.metrics},
		"read the certificate of /metrics from .*/none and .*/empty: open .*/none: no such file or directory":       {TLSCert: filepath.Join(dir, "none"), TLSKey: empty},
		"read the certificate of /metrics from .*/empty and .*/empty: tls: failed to find any PEM data.*":           {TLSCert: empty, TLSKey: empty},
		"metricsAuthorize needs Kubernetes, which says who may read":                                                {Authorize: true},
	} {
		err := Serve(t.Context(), &Options{Listen: listen, Registry: prometheus.NewRegistry(), Ready: ready})
		if err == nil || !regexp.MustCompile("^"+want+"$").MatchString(err.Error()) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// certificate writes a certificate for the name, and its key.
func certificate(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: cert}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTLS reads the metrics by TLS, and the next certificate after it has changed.
func TestTLS(t *testing.T) {
	dir, address := t.TempDir(), loopback.Address(9835)
	var log bytes.Buffer
	certificate(t, dir, "first")
	pair := &keyPair{cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"), log: slog.New(slog.NewTextHandler(&log, nil))}
	serving(t, &Options{Listen: config.Listen{Address: address, TLSCert: pair.cert, TLSKey: pair.key}, Registry: Registry("test"), Ready: func(context.Context) error { return nil }})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // looks at the certificate itself
	await.Until(t, "served by TLS", func() bool {
		resp, err := client.Get("https://" + address + "/metrics") //nolint:noctx // ends with the test
		if err != nil {
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode == http.StatusOK && resp.TLS.PeerCertificates[0].DNSNames[0] == "first"
	})
	if code, _ := get("http://" + address + "/metrics"); code != http.StatusBadRequest {
		t.Errorf("plain text: %d", code)
	}
	name := func() string {
		c, err := pair.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.DNSNames[0]
	}
	if got := name(); got != "first" {
		t.Error(got)
	}
	certificate(t, dir, "second")
	if got := name(); got != "second" {
		t.Errorf("after the change: %s", got)
	}
	if err := os.Remove(pair.key); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "second" || !strings.Contains(log.String(), "the last certificate of /metrics stays") {
		t.Errorf("without the key: %s, and the log says %q", got, &log)
	}
}

// TestLocal refuses a name that somebody else made lead to this machine.
func TestLocal(t *testing.T) {
	h := local(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"127.0.0.1:9838": 200, "localhost:9838": 200, "LOCALHOST": 200, "[::1]:9838": 200, "127.8.9.10": 200, "[::1]": 200,
		"evil.example:9838": 421, "127.0.0.1.evil.example": 421, "10.0.0.1:9838": 421, "localhost.evil.example": 421, "": 421,
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/map", nil)
		r.Host = host
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}
