// Curator's InterProcessMutex around a counter in a file: HOSTS PATH FILE LOG TOTAL SESSION_MS
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;

public class Counter {
    public static void main(String[] given) throws Exception {
        int session = Integer.parseInt(given[5]);
        CuratorFramework client = CuratorFrameworkFactory.newClient(given[0], session, 15000, new RetryNTimes(50, 200));
        client.start();
        client.blockUntilConnected();
        InterProcessMutex mutex = new InterProcessMutex(client, given[1]);
        Path file = Path.of(given[2]), log = Path.of(given[3]);
        Path made = Path.of(given[2] + "." + ProcessHandle.current().pid());
        int total = Integer.parseInt(given[4]);
        while (true) {
            mutex.acquire();
            int value = Integer.parseInt(Files.readString(file).trim());
            if (value >= total) {
                mutex.release();
                System.exit(0);
            }
            Thread.sleep(1);
            Files.writeString(made, "" + (value + 1));
            Files.move(made, file, StandardCopyOption.ATOMIC_MOVE);
            Files.writeString(log, (value + 1) + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            mutex.release();
        }
    }
}
