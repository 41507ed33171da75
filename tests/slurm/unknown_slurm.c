/*
 * unknown_slurm: preloaded into srun or slurmd, makes of it a release that the plugin does not know.
 *
 * The plugin asks the program around it for slurm_api_version(), and finds this one first.  Slurm itself does not call it.
 */
long slurm_api_version(void)
{
	return 9999L << 16;
}
