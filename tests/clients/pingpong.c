/*
 * An MPI program: rank r of the first half and rank r of the second half send each other messages, all pairs at once.
 *
 *   pingpong BYTES TIMES
 *
 * Each rank prints where it runs and what it found set, and ends with an error if a message is not what was sent.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *set(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "-";
}

int main(int count, char **words)
{
	int rank, ranks, bytes, times, peer, i;
	char host[64];
	unsigned char *out, *in;

	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (count != 3 || ranks % 2) {
		fprintf(stderr, "usage: pingpong BYTES TIMES, with an even number of ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	bytes = atoi(words[1]);
	times = atoi(words[2]);
	peer = (rank + ranks / 2) % ranks;
	out = malloc(bytes);
	in = malloc(bytes);
	memset(out, 'a' + rank, bytes);
	for (i = 0; i < times; i++) {
		MPI_Sendrecv(out, bytes, MPI_BYTE, peer, 0, in, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (in[0] != 'a' + peer || in[bytes - 1] != 'a' + peer) {
			fprintf(stderr, "rank %d: this is not what rank %d sent\n", rank, peer);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	}
	gethostname(host, sizeof(host));
	printf("task node=%s local=%s sent=%d ucx=%s\n", host, set("SLURM_LOCALID"), bytes * times, set("UCX_NET_DEVICES"));
	MPI_Finalize();
	return 0;
}
