/* Adds the numbers of all ranks by MPI, in C++ by oneCCL, then runs the program of its words; ends as that does. */
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __cplusplus
#include <oneapi/ccl.hpp>

static cpu_set_t worker;
extern "C" {
/* oneCCL pins its worker thread by these.  fakecpu.so plays masks of processes: the CPU is told, and the thread stays. */
int pthread_attr_setaffinity_np(pthread_attr_t *, size_t, const cpu_set_t *set) noexcept
{
	int cpu = 0;
	for (worker = *set; !CPU_ISSET(cpu, set);)
		cpu++;
	return setenv("WORKER", std::to_string(cpu).c_str(), 1);
}
int pthread_getaffinity_np(pthread_t, size_t, cpu_set_t *set) noexcept
{
	*set = worker;
	return 0;
}
/* VTune's hooks, to which the archive refers */
#define HOOK(name) void *__itt_##name##_ptr__3_0;
HOOK(domain_create) HOOK(event_create) HOOK(event_start) HOOK(event_end) HOOK(metadata_add) HOOK(string_handle_create)
HOOK(task_begin) HOOK(task_end) HOOK(thread_set_name)
}

static int add(int rank, int size)
{
	ccl::kvs::address_type address;
	auto store = rank ? nullptr : ccl::create_main_kvs();
	if (store)
		address = store->get_address();
	MPI_Bcast(address.data(), address.size(), MPI_BYTE, 0, MPI_COMM_WORLD);
	auto all = ccl::create_communicator(size, rank, store ? store : ccl::create_kvs(address));
	ccl::allreduce(&rank, &size, 1, ccl::reduction::sum, all).wait();
	return size;
}
#endif

int main(int count, char **words)
{
	int rank, size, sum, status = 0;
	if (count < 2 || MPI_Init(NULL, NULL))
		return 2;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
#ifdef __cplusplus
	sum = add(rank, size);
#else
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
#endif
	if (fork() == 0) {
		execvp(words[1], words + 1);
		_exit(127);
	}
	wait(&status);
	MPI_Finalize();
	return sum != size * (size - 1) / 2 || status != 0;
}
