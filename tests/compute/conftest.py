import pytest

from engine_examples import DEVICE, mapped, start_workers_quickly


@pytest.fixture(scope="session")
def clusters():
    """All Dask clusters of this test process; the last one is in use."""
    started = []
    yield started
    for client in started:
        client.cluster.close()
        client.close()


@pytest.fixture
def client(clusters):
    """Two workers; those of a new cluster where a test before has left fewer."""
    distributed = pytest.importorskip("distributed")
    try:
        clusters[-1].wait_for_workers(2, timeout=60)
    except (IndexError, TimeoutError, distributed.TimeoutError):
        start_workers_quickly()
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
        clusters.append(distributed.Client(cluster))
    return clusters[-1]


def mover(engine, request):
    """A function that brings bags to an engine."""
    if engine == "cluster":
        client = request.getfixturevalue("client")
        return lambda bags: bags.distribute(client, npartitions=2)
    if engine == "tensor":
        pytest.importorskip("torch")
        return lambda bags: bags.to(DEVICE)
    if engine == "mapped":
        folder = request.getfixturevalue("tmp_path")
        return lambda bags: mapped(bags, folder)
    return lambda bags: bags


@pytest.fixture(params=["mapped", "cluster", "tensor"])
def move(request):
    """Bring bags to an engine, for a comparison with bags that stay here."""
    return mover(request.param, request)


@pytest.fixture(params=["local", "mapped", "cluster", "tensor"])
def put(request):
    """Bring bags to an engine, or leave them here, for a test that compares nothing."""
    return mover(request.param, request)
