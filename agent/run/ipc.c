/* SPDX-License-Identifier: Apache-2.0 */
/* Left-over System V IPC objects. */
#include "ipc.h"

#include <stddef.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

/* The kernel has tables; a call with a place in one gives the id of what is there, whoever made it. */

union semun { /* the caller has to define it */
	int val;
	struct semid_ds *buf;
	struct seminfo *info;
};

void ipc_clear(void)
{
	struct shmid_ds shm;
	struct msqid_ds msg;
	struct semid_ds sem;
	struct seminfo info;
	int last;

	last = shmctl(0, SHM_INFO, &shm);
	for (int i = 0; i <= last; i++)
		(void)shmctl(shmctl(i, SHM_STAT_ANY, &shm), IPC_RMID, NULL);
	last = msgctl(0, MSG_INFO, &msg);
	for (int i = 0; i <= last; i++)
		(void)msgctl(msgctl(i, MSG_STAT_ANY, &msg), IPC_RMID, NULL);
	last = semctl(0, 0, SEM_INFO, (union semun){.info = &info});
	for (int i = 0; i <= last; i++)
		(void)semctl(semctl(i, 0, SEM_STAT_ANY, (union semun){.buf = &sem}), 0, IPC_RMID);
}
