/* What the core and the C library see of the process otherwise than PHP does: the environment, and with threads the directory. */
#ifndef FERMATA_PROCESS_H
#define FERMATA_PROCESS_H

/* Where PHP's variables of the environment are: `environ` of the program, which need not be that of this library. */
extern char ***fermata_environ;

void fermata_process_init(void);
/* Once PHP has its functions. */
void fermata_process_wrap(void);
/* Before the core reads the environment. */
void fermata_process_share_environment(void);

#endif
