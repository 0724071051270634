package service

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// rereadEvery is the shortest time between two looks at the files of a certificate.
const rereadEvery = 10 * time.Second

// keyPair is a certificate and its key in two files, which are read again when they change.
type keyPair struct {
	cert, key string
	log       *slog.Logger
	mu        sync.Mutex
	looked    time.Time
	changed   [2]time.Time
	pair      *tls.Certificate
}

// get returns the certificate. While the files cannot be read, the last one stays.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.looked) >= rereadEvery {
		k.looked = now
		switch err := k.read(); {
		case err != nil && k.pair == nil:
			return nil, err
		case err != nil:
			k.log.Warn("the last certificate of /metrics stays", "err", err)
		}
	}
	return k.pair, nil
}

func (k *keyPair) read() error {
	var changed [2]time.Time
	for i, path := range []string{k.cert, k.key} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("read the certificate of /metrics: %w", err)
		}
		changed[i] = info.ModTime()
	}
	if k.pair != nil && changed == k.changed {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(k.cert, k.key)
	if err != nil {
		return fmt.Errorf("read the certificate of /metrics from %s and %s: %w", k.cert, k.key, err)
	}
	k.pair, k.changed = &pair, changed
	return nil
}
