import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** What of a Java program asks malloc: buffers outside of the heap, and zlib's own memory. */
public class Work {
  public static void main(String[] words) throws Exception {
    byte[] text = new byte[20_000], packed = new byte[30_000], back = new byte[20_000];
    for (int i = 0; i < text.length; i++) text[i] = (byte) (i * 31 % 97);
    long total = 0;
    int rounds = words.length > 0 ? Integer.parseInt(words[0]) : 3000;
    ByteBuffer[] ring = new ByteBuffer[64];
    for (int round = 0; round < rounds; round++) {
      Deflater deflater = new Deflater(1);
      deflater.setInput(text);
      deflater.finish();
      int length = deflater.deflate(packed);
      deflater.end();
      Inflater inflater = new Inflater();
      inflater.setInput(packed, 0, length);
      total += inflater.inflate(back);
      inflater.end();
      ring[round % ring.length] = ByteBuffer.allocateDirect(1000 + round % 60_000);
      ring[round % ring.length].putInt(0, round);
    }
    System.out.println("total=" + total);
    String mark = System.getenv("HAK_MARK");
    if (mark != null) { // the load has ended (hak mark)
      try (FileOutputStream out = new FileOutputStream(mark)) { out.write('\n'); }
      try (FileInputStream done = new FileInputStream(mark + ".done")) { done.read(); }
    }
  }
}
