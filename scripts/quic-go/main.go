// Checks of HTTP/3 with quic-go, from the outside: `cargo xtask conformance` asks for one by its name.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const (
	host, name = "127.0.0.1", "localhost"
	// Whatever takes so long hangs.
	handshake, limit = 10 * time.Second, 40 * time.Second
	// Of the page: the document, a style sheet, a script, eight images, and a large file.
	files = 12
	large = "large.bin"
	// A window so small that most of the large file is still to come when something happens to its connection.
	window = 64 << 10
	// Each leaves a part of a connection's window behind: all together more than there is, should a side forget to give it back.
	cancelled = 60
)

var checks = map[string]func(context.Context, *server) (string, error){
	"page": page, "migration": migration, "cancelled": cancel,
}

// What all checks know of the server.
type server struct {
	port  int
	roots *x509.CertPool
	site  string
}

// A connection of HTTP/3, and the socket that it began on.
type client struct {
	transport *quic.Transport
	quic      *quic.Conn
	http3     *http3.ClientConn
}

func listen() (*quic.Transport, error) {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(host)})
	if err != nil {
		return nil, err
	}
	return &quic.Transport{Conn: &counting{PacketConn: socket}}, nil
}

// A socket that counts the bytes that come.
type counting struct {
	net.PacketConn
	got atomic.Int64
}

func (c *counting) ReadFrom(into []byte) (int, net.Addr, error) {
	size, from, err := c.PacketConn.ReadFrom(into)
	c.got.Add(int64(size))
	return size, from, err
}

func (s *server) connect(ctx context.Context) (*client, error) {
	transport, err := listen()
	if err != nil {
		return nil, err
	}
	security := &tls.Config{ServerName: name, RootCAs: s.roots, NextProtos: []string{http3.NextProtoH3}}
	settings := &quic.Config{
		HandshakeIdleTimeout: handshake, InitialStreamReceiveWindow: window, MaxStreamReceiveWindow: window,
		InitialConnectionReceiveWindow: 4 * window, MaxConnectionReceiveWindow: 4 * window,
	}
	connection, err := transport.Dial(ctx, &net.UDPAddr{IP: net.ParseIP(host), Port: s.port}, security, settings)
	if err != nil {
		return nil, fmt.Errorf("no connection of QUIC: %w", err)
	}
	return &client{transport, connection, (&http3.Transport{}).NewClientConn(connection)}, nil
}

func (c *client) close() {
	c.quic.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	c.transport.Close()
	c.transport.Conn.Close()
}

func (c *client) ask(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+name+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.http3.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK || response.ProtoMajor != 3 {
		return nil, fmt.Errorf("%s: %s, status %d, expected HTTP/3.0, 200", path, response.Proto, response.StatusCode)
	}
	return response, nil
}

// Reads the rest of a response, of which `first` is there already; it has to be as the file is.
func (s *server) isWhole(path string, first []byte, body io.Reader) (int, error) {
	rest, err := io.ReadAll(body)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	wanted, err := os.ReadFile(filepath.Join(s.site, path))
	if err != nil {
		return 0, err
	}
	got := append(bytes.Clone(first), rest...)
	if len(got) != len(wanted) || sha256.Sum256(got) != sha256.Sum256(wanted) {
		return 0, fmt.Errorf("%s: %d bytes, SHA-256 %x, expected %d, %x", path, len(got), sha256.Sum256(got), len(wanted), sha256.Sum256(wanted))
	}
	return len(got), nil
}

func (s *server) load(ctx context.Context, c *client, path string) (int, error) {
	response, err := c.ask(ctx, path)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return s.isWhole(path, nil, response.Body)
}

// The files of the page: what is empty is not of it.
func (s *server) files() ([]string, error) {
	entries, err := os.ReadDir(s.site)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Size() > 0 {
			found = append(found, entry.Name())
		}
	}
	if len(found) != files {
		return nil, fmt.Errorf("%d files in the folder, expected %d", len(found), files)
	}
	return found, nil
}

// All files at once, over one connection.
func page(ctx context.Context, s *server) (string, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return "", err
	}
	defer c.close()
	paths, err := s.files()
	if err != nil {
		return "", err
	}
	type outcome struct {
		size int
		err  error
	}
	outcomes := make(chan outcome, len(paths))
	for _, path := range paths {
		go func() {
			size, err := s.load(ctx, c, path)
			outcomes <- outcome{size, err}
		}()
	}
	var all int
	for range paths {
		one := <-outcomes
		if one.err != nil {
			return "", one.err
		}
		all += one.size
	}
	return fmt.Sprintf("%d files at once, %d bytes, whole", len(paths), all), nil
}

// The client moves to another socket during a download, once it has seen that the server answers there.
func migration(ctx context.Context, s *server) (string, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return "", err
	}
	defer c.close()
	response, err := c.ask(ctx, large)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	first := make([]byte, window/2)
	if _, err := io.ReadFull(response.Body, first); err != nil {
		return "", err
	}
	other, err := listen()
	if err != nil {
		return "", err
	}
	defer other.Conn.Close()
	path, err := c.quic.AddPath(other)
	if err != nil {
		return "", err
	}
	if err := path.Probe(ctx); err != nil {
		return "", fmt.Errorf("the server does not answer at the new address: %w", err)
	}
	if err := path.Switch(); err != nil {
		return "", err
	}
	size, err := s.isWhole(large, first, response.Body)
	if err != nil {
		return "", err
	}
	got := other.Conn.(*counting).got.Load()
	if got < int64(size/2) {
		return "", fmt.Errorf("%d bytes came to the new port, expected half of %d at least", got, size)
	}
	return fmt.Sprintf("%d of %d bytes came to the new port, whole", got, size), nil
}

// Responses that their client no longer wants: they end, the others do not, and no window is lost.
func cancel(ctx context.Context, s *server) (string, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return "", err
	}
	defer c.close()
	kept, err := c.ask(ctx, large)
	if err != nil {
		return "", err
	}
	defer kept.Body.Close()
	for range cancelled {
		response, err := c.ask(ctx, large)
		if err != nil {
			return "", err
		}
		if _, err := io.ReadFull(response.Body, make([]byte, window/4)); err != nil {
			return "", err
		}
		// In its middle, this stops the stream (H3_REQUEST_CANCELLED).
		response.Body.Close()
	}
	if _, err := s.isWhole(large, nil, kept.Body); err != nil {
		return "", err
	}
	if _, err := s.load(ctx, c, large); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d responses cancelled in their middle; two others whole", cancelled), nil
}

func main() {
	check := flag.String("check", "page", "page, migration or cancelled")
	port := flag.Int("port", 443, "port of the server at 127.0.0.1")
	authority := flag.String("authority", "", "certificate of the authority, as PEM")
	site := flag.String("site", ".", "folder that is served")
	flag.Parse()
	// A socket that counts has no buffer to be set.
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	said, err := run(*check, *port, *authority, *site)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(said)
}

func run(check string, port int, authority, site string) (string, error) {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return "", err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return "", fmt.Errorf("%s: no certificate", authority)
	}
	wanted := checks[check]
	if wanted == nil {
		return "", errors.New("-check " + check + ": expected page, migration or cancelled")
	}
	ctx, end := context.WithTimeout(context.Background(), limit)
	defer end()
	return wanted(ctx, &server{port, roots, site})
}
