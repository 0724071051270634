package service

import (
	"container/list"
	"net"
	"sync"
)

// bounded is a listener with maxConnections at most. One more ends the oldest, so that
// somebody who opens many and asks nothing keeps nobody out.
type bounded struct {
	net.Listener
	mu   sync.Mutex
	open list.List // of *connection, the oldest first
}

// Accept waits for the next connection.
func (b *bounded) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.open.Len() >= maxConnections {
		oldest := b.open.Remove(b.open.Front()).(*connection)
		_ = oldest.Conn.Close() // the server sees it and closes the rest
	}
	conn := &connection{Conn: c, of: b}
	conn.at = b.open.PushBack(conn)
	return conn, nil
}

// connection leaves the listener's list when it is closed.
type connection struct {
	net.Conn
	of *bounded
	at *list.Element
}

// Close closes the connection.
func (c *connection) Close() error {
	c.of.mu.Lock()
	c.of.open.Remove(c.at) // does nothing if it is not there any more
	c.of.mu.Unlock()
	return c.Conn.Close()
}
