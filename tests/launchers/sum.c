/* Adds the numbers of all ranks by MPI, then runs the program of its words; ends as that does. */
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words)
{
	int rank, size, sum, status = 0;
	if (count < 2 || MPI_Init(NULL, NULL))
		return 2;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (fork() == 0) {
		execvp(words[1], words + 1);
		_exit(127);
	}
	wait(&status);
	MPI_Finalize();
	return sum != size * (size - 1) / 2 || status != 0;
}
