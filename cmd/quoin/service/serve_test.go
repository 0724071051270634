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
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/testdata/rig/await"
	"github.com/quoin-hpc/quoin/testdata/rig/loopback"
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

// dial opens connections and sends each the text.
func dial(t *testing.T, address string, count int, text string) {
	t.Helper()
	for range count {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write([]byte(text)) // the server may have closed it
	}
}

const question = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

// TestSlowScrapers opens a thousand connections that send half a question, and a thousand
// that do not read the answer, and 600 to /readyz. Metrics and probes are answered as before.
func TestSlowScrapers(t *testing.T) {
	for name, attack := range map[string]func(*testing.T, *started){
		"half a question":  func(t *testing.T, s *started) { dial(t, s.metrics, 1000, question[:20]) },
		"no reader":        func(t *testing.T, s *started) { dial(t, s.metrics, 1000, question) },
		"600 to readyz":    func(t *testing.T, s *started) { dial(t, s.health, 600, "") },
		"600 half a probe": func(t *testing.T, s *started) { dial(t, s.health, 600, "GET /readyz HT") },
		"600 whole probes": func(t *testing.T, s *started) {
			dial(t, s.health, 600, strings.ReplaceAll(question, "metrics", "readyz"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			if _, text := get("http://" + s.metrics + "/metrics"); strings.Count(text, "\nlarge{") != largeSeries {
				t.Fatal("not all series")
			}
			before, asked, began := memory(), s.asked.Load(), time.Now()
			attack(t, s)
			for range 5 {
				for _, path := range []string{"/healthz", "/readyz"} {
					if code, text := get("http://" + s.health + path); code != http.StatusOK {
						t.Errorf("%s: %d %s", path, code, text)
					}
				}
				if code, text := get("http://" + s.metrics + "/metrics"); code != http.StatusOK || strings.Count(text, "\nlarge{") != largeSeries {
					t.Errorf("metrics: %d, %d series: %.200s", code, strings.Count(text, "\nlarge{"), text)
				}
			}
			// A server has a goroutine or two for each connection, and a text for each second.
			await.Until(t, "the goroutines of the closed connections end", func() bool { return runtime.NumGoroutine() < 4*maxConnections })
			if more := memory() - before; more > 64<<20 {
				t.Errorf("%d MiB more", more>>20)
			}
			if n, took := s.asked.Load()-asked, time.Since(began); int(n) > 100+int(took.Seconds()) {
				t.Errorf("asked %d times in %s whether it is ready", n, took)
			}
		})
	}
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSharedMetrics reads the metrics often: they are collected once a second in each form.
func TestSharedMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reg := newLarge(), prometheus.NewRegistry()
		reg.MustRegister(l)
		h := shared(reg)
		ask := func(accept string) *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
			r.Header.Set("Accept", accept)
			h.ServeHTTP(w, r)
			return w
		}
		const open = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
		for range 20 {
			if got := ask("").Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
				t.Errorf("plain: %s", got)
			}
			if w := ask(open); !strings.HasPrefix(w.Header().Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(w.Body.String(), "# EOF\n") {
				t.Errorf("OpenMetrics: %s", w.Header())
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := l.collected.Load(); n != 4 {
			t.Errorf("collected %d times in two seconds in two forms", n)
		}
	})
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
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ready := func(context.Context) error { return nil }
	for want, listen := range map[string]config.Listen{
		"serve metrics: listen tcp .*: bind: address already in use; choose another address by the key listen":      {Address: s.metrics},
		"serve probes: listen tcp .*: bind: address already in use; choose another address by the key healthListen": {Health: s.metrics},
		"read the certificate of /metrics: stat .*/none: no such file or directory":                                 {TLSCert: filepath.Join(dir, "none"), TLSKey: empty},
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
		pair.looked = time.Time{} // it is time to look
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
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(pair.cert, later, later); err != nil {
		t.Fatal(err)
	}
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
