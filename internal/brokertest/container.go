package brokertest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

const (
	labelVersion = "rmqkit.test.version"
	labelSession = "rmqkit.test.session"
	labelExpires = "rmqkit.test.expires"

	portAMQP       = "5672/tcp"
	portManagement = "15672/tcp"

	// lifetime is when a container ends by itself, should nobody remove it. One with less than half
	// of it left is not shared any more.
	lifetime = 40 * time.Minute
)

// container is a broker in Docker.
type container struct {
	pool     *dockertest.Pool
	resource *dockertest.Resource
}

// spec says what a container of a broker holds.
type spec struct {
	version string
	options PrivateOptions
	private bool
}

// connect returns Docker's engine, or an error that says what to do.
func connect() (*dockertest.Pool, error) {
	pool, err := dockertest.NewPool("")
	if err == nil {
		err = pool.Client.Ping()
	}
	if err != nil {
		return nil, fmt.Errorf("no Docker (%w); start it, or set RMQ_TEST_URL to a broker with the management plugin, or INTEGRATION=off to go without", err)
	}
	return pool, nil
}

// startShared finds the broker that another test process started, or starts it. A lock file keeps two
// processes from starting two.
func startShared(version string) (*Broker, error) {
	pool, err := connect()
	if err != nil {
		return nil, err
	}
	defer pool.Client.HTTPClient.CloseIdleConnections()
	unlock, err := lock(version)
	if err != nil {
		return nil, err
	}
	defer unlock()
	sweep(pool)
	c, err := find(pool, version)
	if err != nil {
		return nil, err
	}
	if c == nil {
		if c, err = run(pool, spec{version: version}); err != nil {
			return nil, err
		}
	}
	b := c.broker()
	if err := b.wait(); err != nil {
		log := c.log()
		return nil, errors.Join(fmt.Errorf("%w\nits log ends with:\n%s", err, log), pool.Purge(c.resource))
	}
	return b, nil
}

func session() string {
	if s := os.Getenv("RMQ_TEST_SESSION"); s != "" {
		return s
	}
	return "local"
}

func lock(version string) (unlock func(), err error) {
	name := filepath.Join(os.TempDir(), fmt.Sprintf("rmqkit-brokertest-%d-%s.lock", os.Getuid(), version))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// sweep removes what test processes left that were killed.
func sweep(pool *dockertest.Pool) {
	list, err := pool.Client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {labelExpires}},
	})
	if err != nil {
		return
	}
	for _, c := range list {
		expires, err := strconv.ParseInt(c.Labels[labelExpires], 10, 64)
		if err == nil && time.Until(time.Unix(expires, 0)) < 0 {
			_ = pool.Client.RemoveContainer(docker.RemoveContainerOptions{ID: c.ID, Force: true, RemoveVolumes: true})
		}
	}
}

// find returns a running shared container that lasts long enough, or nil.
func find(pool *dockertest.Pool, version string) (*container, error) {
	list, err := pool.Client.ListContainers(docker.ListContainersOptions{
		Filters: map[string][]string{
			"label": {labelVersion + "=" + version, labelSession + "=" + session()},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	for _, c := range list {
		expires, _ := strconv.ParseInt(c.Labels[labelExpires], 10, 64)
		if c.State != "running" || time.Until(time.Unix(expires, 0)) < lifetime/2 {
			continue
		}
		if r, ok := pool.ContainerByName("^" + c.Names[0] + "$"); ok {
			return &container{pool: pool, resource: r}, nil
		}
	}
	return nil, nil
}

// image splits the image name of a version into repository and tag.
func image(version string) (repository, tag string) {
	name := "rabbitmq:%s-management"
	if s := os.Getenv("RMQ_TEST_IMAGE"); s != "" {
		name = s
	}
	name = strings.ReplaceAll(name, "%s", version)
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return name[:i], name[i+1:]
	}
	return name, "latest"
}

// run starts a container. A port that was free can be taken before Docker binds it, so it tries again.
func run(pool *dockertest.Pool, s spec) (*container, error) {
	var errs []error
	for range 3 {
		c, err := runOnce(pool, s)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		if !strings.Contains(err.Error(), "port") {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func runOnce(pool *dockertest.Pool, s spec) (*container, error) {
	repository, tag := image(s.version)
	bindings := map[docker.Port][]docker.PortBinding{}
	for _, p := range append([]string{portAMQP, portManagement}, s.options.Ports...) {
		// A random port of Docker's own choice would be another one after a restart.
		free, err := freePort()
		if err != nil {
			return nil, err
		}
		bindings[docker.Port(p)] = []docker.PortBinding{{HostIP: "127.0.0.1", HostPort: free}}
	}
	labels := map[string]string{
		labelExpires: strconv.FormatInt(time.Now().Add(lifetime).Unix(), 10),
		labelSession: session(),
	}
	if !s.private {
		labels[labelVersion] = s.version
	}
	cmd, env := s.options.command()
	r, err := pool.RunWithOptions(&dockertest.RunOptions{
		Repository: repository, Tag: tag, Cmd: cmd, Env: env, Labels: labels,
		PortBindings: bindings, ExposedPorts: s.options.Ports,
	}, func(h *docker.HostConfig) {
		h.PublishAllPorts = false
	})
	if err != nil {
		return nil, fmt.Errorf("run image %s:%s (where it cannot be pulled, scripts/broker-image builds it): %w", repository, tag, err)
	}
	return &container{pool: pool, resource: r}, nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

func (c *container) broker() *Broker {
	guest := url.UserPassword("guest", "guest")
	amqpURL := url.URL{Scheme: "amqp", User: guest, Host: c.resource.GetHostPort(portAMQP), Path: "/"}
	http := url.URL{Scheme: "http", User: guest, Host: c.resource.GetHostPort(portManagement)}
	return &Broker{URL: amqpURL.String(), ManagementURL: http.String(), container: c}
}

// exited reports whether the broker has ended.
func (c *container) exited() bool {
	now, err := c.pool.Client.InspectContainer(c.resource.Container.ID)
	return err == nil && !now.State.Running
}

// log returns the last lines of the broker's log.
func (c *container) log() string {
	var b bytes.Buffer
	err := c.pool.Client.Logs(docker.LogsOptions{
		Container: c.resource.Container.ID, OutputStream: &b, ErrorStream: &b, Stdout: true, Stderr: true, Tail: "60",
	})
	if err != nil {
		return err.Error()
	}
	return b.String()
}
