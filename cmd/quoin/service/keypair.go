package service

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"

	"github.com/quoin-hpc/quoin/slurmconf/again"
)

// keyPair is a certificate and its key in two files. They are read for each connection, because scrapers
// keep theirs.
type keyPair struct {
	cert, key string
	log       *slog.Logger
	mu        sync.Mutex
	failed    again.Once
	last      *tls.Certificate
}

// get returns the certificate. While the files cannot be read, the last one stays.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pair, err := tls.LoadX509KeyPair(k.cert, k.key)
	if err == nil {
		k.last = &pair
		k.failed.Forget()
		return k.last, nil
	}
	err = fmt.Errorf("read the certificate of /metrics from %s and %s: %w", k.cert, k.key, err)
	if k.last == nil {
		return nil, err
	}
	if k.failed.IsNew(err.Error()) {
		k.log.Warn("the last certificate of /metrics stays", "err", err)
	}
	return k.last, nil
}
